"""In-flight accounting and fences."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from gateway.domain.routing import Phase, Routing, TopicRoute
from gateway.proxy.forwarder import Forwarder


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_fence_waits_for_what_is_in_flight_and_counts_unknown_outcomes() -> None:
    forwarder = Forwarder("gw", Clock())
    forwarder.begin(["a", "b"])
    forwarder.begin(["a"])
    still_open: list[int] = []

    async def answers() -> None:
        still_open.append(forwarder.in_flight("a"))
        forwarder.end(["a", "b"], unknown=False)
        still_open.append(forwarder.in_flight("a"))
        forwarder.end(["a"], unknown=True)

    ack, _ = await asyncio.gather(forwarder.fence("a", 3), answers())
    assert still_open == [2, 1]
    assert (ack.topic, ack.epoch, ack.unknown_outcomes) == ("a", 3, 1)


async def test_a_fence_is_not_acknowledged_while_something_is_in_flight() -> None:
    forwarder = Forwarder("gw", Clock())
    forwarder.begin(["a"])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(forwarder.fence("a", 1), 0.01)


async def test_old_unknown_outcomes_are_forgotten() -> None:
    clock = Clock()
    forwarder = Forwarder("gw", clock)
    forwarder.begin(["a"])
    forwarder.end(["a"], unknown=True)
    clock.now += 31
    assert (await forwarder.fence("a", 1)).unknown_outcomes == 0


def test_held_requests_are_released_in_order_when_the_fence_ends() -> None:
    forwarder = Forwarder("gw", Clock())
    released: list[int] = []
    keys = [forwarder.hold("a", partial(released.append, n)) for n in range(3)]
    forwarder.leave("a", keys[1])
    fenced = TopicRoute(link="l", mirror_topic="a", source_topic="a", phase=Phase.FENCED)
    forwarder.routing_changed(Routing({"a": fenced}))
    assert released == []
    assert forwarder.held() == {"a": 2}
    forwarder.routing_changed(Routing({}))
    assert released == [0, 2]
    assert forwarder.held() == {}
