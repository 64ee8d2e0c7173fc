"""A breakpoint behind records that the source has deleted is written when the loss is told, not before."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gateway.jobs.lost_records import Lost, told_at_once
from gateway.jobs.source.behind_losses import BehindLosses
from gateway.mirror.partition.rules.translator import Planned

LOST = Lost("t", 0, 100, 200)


class Maps:
    """Notes what is written."""

    def __init__(self) -> None:
        self.written: list[int] = []

    def write_breakpoints(self, runner: Any, planned: Planned) -> None:
        self.written.append(planned.up_to)


def runner(run: int = 1, *, ended: bool = False) -> Any:
    return SimpleNamespace(mirror=SimpleNamespace(translator=SimpleNamespace(run=run), ended=ended))


def scene() -> tuple[BehindLosses, Maps, list[Callable[[], None]]]:
    maps, told = Maps(), list[Callable[[], None]]()
    return BehindLosses(maps, lambda _, done: told.append(done)), maps, told  # type: ignore[arg-type]


def test_breakpoints_wait_for_all_losses() -> None:
    behind, maps, told = scene()
    one = runner()
    behind.write_breakpoints(one, Planned((), 1, 1))
    behind.lost(one, LOST)
    behind.write_breakpoints(one, Planned((), 2, 1))
    behind.lost(one, LOST)
    told[0]()
    behind.write_breakpoints(one, Planned((), 3, 1))
    assert maps.written == [1]
    told[1]()
    assert maps.written == [1, 2, 3]
    behind.write_breakpoints(one, Planned((), 4, 1))
    assert maps.written[-1] == 4


def test_what_was_planned_before_an_unknown_outcome_is_not_written() -> None:
    behind, maps, told = scene()
    behind.lost(runner(), LOST)
    behind.write_breakpoints(runner(), Planned((), 1, 0))
    told[0]()
    assert maps.written == []


def test_who_has_ended_writes_nothing() -> None:
    behind, maps, told = scene()
    behind.lost(runner(ended=True), LOST)
    behind.write_breakpoints(runner(), Planned((), 1, 1))
    told[0]()
    assert maps.written == []


def test_where_nobody_counts_nothing_waits() -> None:
    maps = Maps()
    behind = BehindLosses(maps, told_at_once)  # type: ignore[arg-type]
    behind.lost(runner(), LOST)
    behind.write_breakpoints(runner(), Planned((), 1, 1))
    assert maps.written == [1]
