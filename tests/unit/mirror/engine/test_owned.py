"""Which partitions of the started mirrors run in this process: told whole, or by what has changed."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from gateway.mirror.engine.owned import PartlyOwned
from gateway.mirror.rules.mirror_partition import MirrorPartition

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


def test_a_table_that_was_carried_over_is_for_what_begins_next() -> None:
    engine = Engine()
    engine.own(frozenset())
    engine.carry_over({A: ()})
    engine.own_changed([B], [])
    assert not engine._carried
