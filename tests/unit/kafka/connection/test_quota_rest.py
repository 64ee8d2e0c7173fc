"""What a throttled answer asks of a connection: nothing is sent until it is over, and then one request first."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from gateway.kafka.connection.quota_rest import LONGEST_S, QuotaRest
from protocol.apis import ApiKey
from protocol.codec import encode_body
from protocol.messages import MetadataRequest
from tests.support.brokers.quick_clusters import OpenConnection
from tests.support.fakes.fake_broker import SILENCE, FakeBroker, Request
from tests.support.proxy.conversation import LaneClock
from tests.support.waiting import wait_until_async


class Lane:
    """A connection whose senders each send one request when they may."""

    def __init__(self) -> None:
        self.clock = LaneClock()
        self.in_flight = 0
        self.sent: list[str] = []
        self.rest = QuotaRest(cast("Any", self.clock), lambda: self.in_flight)

    def wants(self, name: str, *, sends: bool = True) -> Any:
        def may() -> None:
            self.sent.append(name)
            self.in_flight += sends

        return self.rest.when_may_send(may)

    def answered(self, throttle_ms: int) -> None:
        self.in_flight -= 1
        self.rest.told(throttle_ms)


def resting(throttle_ms: int = 500) -> Lane:
    lane = Lane()
    lane.in_flight = 1
    lane.answered(throttle_ms)
    return lane


def test_nothing_is_sent_until_the_time_is_over() -> None:
    lane = resting()
    assert (lane.rest.active, lane.rest.may_send(), lane.rest.left_s) == (True, False, 0.5)
    lane.wants("a")
    lane.clock.passes(0.4)
    assert lane.sent == []
    lane.clock.passes(0.1)
    assert lane.sent == ["a"]


def test_a_timer_that_goes_off_a_little_early_leaves_nobody_waiting() -> None:
    lane = resting()
    lane.clock.early = 0.0005
    lane.wants("a")
    lane.wants("b")
    lane.clock.passes(0.4996)
    assert lane.sent == ["a"]
    lane.answered(0)
    assert lane.sent == ["a", "b"]
    assert not lane.rest.active


def test_one_request_tells_whether_there_is_room_again() -> None:
    lane = resting()
    for name in "abc":
        lane.wants(name)
    lane.clock.passes(0.5)
    assert lane.sent == ["a"]
    lane.answered(200)
    lane.clock.passes(0.2)
    assert lane.sent == ["a", "b"]
    lane.answered(0)
    assert lane.sent == ["a", "b", "c"]
    assert not lane.rest.active
    assert lane.rest.may_send()


def test_one_that_has_nothing_to_send_any_more_keeps_nobody() -> None:
    lane = resting()
    lane.wants("a", sends=False)
    lane.wants("b")
    lane.wants("c")
    lane.clock.passes(0.5)
    assert lane.sent == ["a", "b"]


def test_who_leaves_is_not_called() -> None:
    lane = resting()
    leave = lane.wants("a")
    lane.wants("b")
    leave()
    lane.clock.passes(0.5)
    assert lane.sent == ["b"]
    assert lane.rest.waiting == 0


def test_what_was_in_flight_already_is_answered_first() -> None:
    lane = resting()
    lane.in_flight = 2
    lane.wants("a")
    lane.clock.passes(0.5)
    assert lane.sent == []
    lane.answered(100)
    lane.answered(0)
    lane.clock.passes(0.1)
    assert lane.sent == ["a"]


def test_a_connection_that_ends_keeps_nobody() -> None:
    lane = resting()
    lane.wants("a", sends=False)
    lane.wants("b", sends=False)
    lane.rest.end()
    assert lane.sent == ["a", "b"]


def test_no_rest_is_for_ever() -> None:
    assert resting(2**31 - 1).rest.left_s == LONGEST_S


async def test_a_broker_that_reads_nothing_for_a_while_is_not_given_up(connect: OpenConnection) -> None:
    """What was sent before the throttled answer came is in flight for as long as the broker throttles."""
    held: list[Request] = []

    def hold(request: Request) -> Any:
        held.append(request)
        return SILENCE

    async with FakeBroker({ApiKey.METADATA: hold}) as broker:
        connection = await connect(broker.port, **{"request.timeout.ms": "200"})
        answers: list[object] = []
        asked = encode_body(MetadataRequest(topics=[]), 9)
        connection.send(ApiKey.METADATA, 9, (asked,), answers.append)
        connection.rest.told(600)
        began = asyncio.get_running_loop().time()
        await wait_until_async(lambda: connection.closed, 10)
        assert asyncio.get_running_loop().time() - began >= 0.6
        assert answers == [None]
    assert held
