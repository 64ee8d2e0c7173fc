"""In-flight accounting."""

from __future__ import annotations

import asyncio

import pytest

from gateway.proxy.produce.forwarder import ACKED_KEPT_S, Forwarder


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_drain_waits_for_what_is_in_flight_and_counts_unknown_outcomes() -> None:
    forwarder = Forwarder(Clock())
    forwarder.begin(["a", "b"])
    forwarder.begin(["a"])
    still_open: list[int] = []

    async def answers() -> None:
        still_open.append(forwarder.in_flight("a"))
        forwarder.end(["a", "b"], unknown=False)
        still_open.append(forwarder.in_flight("a"))
        forwarder.end(["a"], unknown=True)

    unknown, _ = await asyncio.gather(forwarder.drain("a"), answers())
    assert still_open == [2, 1]
    assert unknown == 1


async def test_a_drain_is_not_over_while_something_is_in_flight() -> None:
    forwarder = Forwarder(Clock())
    forwarder.begin(["a"])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(forwarder.drain("a"), 0.01)


async def test_what_clients_were_told_is_known_for_a_while() -> None:
    clock = Clock()
    forwarder = Forwarder(clock)
    forwarder.acknowledged("a", 0, 7)
    clock.now += ACKED_KEPT_S
    forwarder.acknowledged("a", 1, 9)
    assert forwarder.acked("a") == ((0, 7), (1, 9))
    clock.now += 1
    assert (forwarder.acked("a"), forwarder.acked("b")) == (((1, 9),), ())


async def test_old_unknown_outcomes_are_forgotten() -> None:
    clock = Clock()
    forwarder = Forwarder(clock)
    forwarder.begin(["a"])
    forwarder.end(["a"], unknown=True)
    clock.now += 31
    assert await forwarder.drain("a") == 0
