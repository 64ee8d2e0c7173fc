"""Which partitions of the started mirrors run in this process: told whole, or by what has changed."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from gateway.mirror.engine.owned import PartlyOwned
from gateway.mirror.partition.rules.fetch_cursor import FetchCursor
from gateway.mirror.partition.rules.producer_table import CarriedTable, ProducerTable
from gateway.mirror.rules.period import MirrorPartition

A, B, C = (MirrorPartition("l", "t", index) for index in range(3))
OTHER = MirrorPartition("l", "u", 0)


class Engine(PartlyOwned):
    """`fitted`: the topics that were told to run what they own, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.fitted: list[str] = []
        self.changed: list[set[str] | None] = []
        topics = {topic: SimpleNamespace(runners={}) for topic in ("t", "u")}
        self._link = SimpleNamespace(record=SimpleNamespace(name="l"), topics=topics, fit=self.fitted.append)

    def link_mirrors(self) -> Iterable[Any]:
        return (self._link,)

    def runners_changed(self, topics: Iterable[str] | None = None) -> None:
        self.changed.append(None if topics is None else set(topics))


def owned(engine: Engine) -> dict[str, set[int]]:
    return {topic: set(engine.owned("l", topic) or ()) for topic in ("t", "u")}


def test_what_has_changed_is_all_that_is_looked_at() -> None:
    engine = Engine()
    assert engine.owned("l", "t") is None
    engine.own(frozenset((A, OTHER)))
    engine.fitted.clear()
    engine.own_changed([B], [A])
    assert owned(engine) == {"t": {1}, "u": {0}}
    assert engine.fitted == ["t"]
    assert engine.changed[-1] == {"t"}
    engine.fitted.clear()
    engine.own_changed([], [])
    assert engine.fitted == []


def test_what_is_so_already_stays_so() -> None:
    engine = Engine()
    engine.own(frozenset((A,)))
    engine.own_changed([A], [B, OTHER])  # released before, or never here
    assert owned(engine) == {"t": {0}, "u": set()}
    engine.own_changed([], [A])
    engine.own_changed([C], [A])
    assert owned(engine) == {"t": {2}, "u": set()}


def test_all_of_it_is_told_as_what_has_changed() -> None:
    engine = Engine()
    engine.own(frozenset((A, OTHER)))
    engine.fitted.clear()
    engine.own(frozenset((A, B, OTHER)))
    assert owned(engine) == {"t": {0, 1}, "u": {0}}
    assert engine.fitted == ["t"]
    engine.own(None)
    assert engine.owned("l", "t") is None


async def test_what_is_released_is_owned_no_more() -> None:
    engine = Engine()
    engine._link.quiet = lambda topic: quiet()

    async def quiet() -> bool:
        return True

    engine.own(frozenset((A, B)))
    await engine.release(frozenset((A,)))
    assert owned(engine) == {"t": {1}, "u": set()}


async def test_a_table_with_a_gap_is_not_handed_over() -> None:
    """Whoever runs the partition next would take it for whole, and a batch that is missing from it for a new one."""
    engine = Engine()
    engine._link.quiet = lambda topic: quiet()

    async def quiet() -> bool:
        return True

    whole, begun = (FetchCursor(lambda _: None, ProducerTable()) for _ in range(2))
    whole.start(0, 0)
    begun.start(50_000, 0)  # nothing below it has been read
    for index, cursor in enumerate((whole, begun)):
        engine._link.topics["t"].runners[index] = SimpleNamespace(cursor=cursor, producers=cursor.producers.packed)
    assert await engine.release(frozenset((A, B, C))) == {A: CarriedTable(0, ())}


def test_of_several_tables_the_one_that_was_read_farthest_is_begun_with() -> None:
    engine = Engine()
    old, young = CarriedTable(20, ()), CarriedTable(30, ())
    engine.own(frozenset())
    engine.carry_over({A: old, B: young})
    engine.carry_over({A: young, B: old})
    runner: Any = SimpleNamespace(partition=0, cursor=FetchCursor(lambda _: None, ProducerTable()))
    engine.transfer_to("l", "t", runner)
    assert runner.cursor.carried_to == 30
    assert engine._carried == {B: young}


def test_a_table_that_was_carried_over_is_for_what_begins_next() -> None:
    engine = Engine()
    engine.own(frozenset())
    engine.carry_over({A: CarriedTable(0, ())})
    engine.own_changed([B], [])
    assert not engine._carried
