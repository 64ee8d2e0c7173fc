"""The thread for batches that are too much for the event loop: it rests, and tells how it went."""

from __future__ import annotations

import threading
from typing import Any, cast

from gateway.mirror.partition.beside import Paced, work_beside
from gateway.mirror.partition.rules.commands import WorkBeside
from gateway.mirror.partition.rules.opened import MOST_INFLATED, Opened, Terms


class Runner:
    def __init__(self) -> None:
        self.told: list[tuple[WorkBeside, Opened | Exception]] = []

    def worked(self, command: WorkBeside, opened: Opened | Exception) -> None:
        self.told.append((command, opened))


def command_of(work: Any) -> WorkBeside:
    return WorkBeside(work, (0, 0), lambda _now: ())


def test_it_rests_after_each_slice() -> None:
    rests: list[float] = []
    paced = Paced(rests.append)
    for _ in range(10):
        paced.spend(512)
    assert len(rests) == 5
    assert sum(rests) < 0.01


async def test_it_is_done_in_a_thread_and_told_on_the_loop() -> None:
    where: list[int] = []

    def work(terms: Terms) -> Opened:
        assert terms.inflated == MOST_INFLATED
        where.append(threading.get_ident())
        return made

    runner, made = Runner(), Opened({})
    command = command_of(work)
    await work_beside(cast("Any", runner), command)
    assert runner.told == [(command, made)]
    assert where != [threading.get_ident()]


async def test_what_goes_wrong_is_the_partitions() -> None:
    def work(_terms: Terms) -> Opened:
        raise ZeroDivisionError

    runner = Runner()
    await work_beside(cast("Any", runner), command_of(work))
    ((_, found),) = runner.told
    assert isinstance(found, ZeroDivisionError)
