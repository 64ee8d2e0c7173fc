"""A gateway that cannot start is started again while something is broken, and only then."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.simulation.faults.faults import Faults
from tests.simulation.fleet.gateway_node import NotServing
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.plan import Fault, FaultKind


class Gateway:
    """Cannot start the first `vain` times."""

    def __init__(self, vain: int) -> None:
        self.name, self.runs, self.starts = "gw-0", True, 0
        self._vain = vain

    def kill(self) -> None:
        self.runs = False

    async def start(self) -> None:
        self.starts += 1
        if self.starts <= self._vain:
            raise NotServing("the state was not changed")
        self.runs = True


def struck(gateway: Gateway, *, troubled: bool) -> None:
    """It is killed, and who runs it starts it."""
    begun: list[Coroutine[Any, Any, None]] = []

    async def hold(seconds: float) -> None:
        await asyncio.sleep(seconds)

    scene = SimpleNamespace(
        leader=lambda: gateway,
        soon=lambda work, name: begun.append(work),
        troubled=lambda: troubled,
        hold=hold,
    )
    with SimLoop(1) as loop:
        Faults(cast("Any", scene), random.Random(1)).strike(Fault(FaultKind.LEADER_KILLED, 0, "anywhere", 0.0, 1.0))
        loop.run_until_complete(loop.spawn(loop.lab, begun[0], "start"))


def test_it_is_started_again_while_something_is_broken() -> None:
    gateway = Gateway(2)
    struck(gateway, troubled=True)
    assert gateway.runs
    assert gateway.starts == 3


def test_when_nothing_is_broken_it_must_start_at_once() -> None:
    gateway = Gateway(1)
    with pytest.raises(NotServing, match="the state was not changed"):
        struck(gateway, troubled=False)
    assert gateway.starts == 1


def test_nor_is_it_started_for_ever() -> None:
    with pytest.raises(NotServing, match="in vain"):
        struck(Gateway(99), troubled=True)
