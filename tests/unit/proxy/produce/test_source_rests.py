"""A source that throttles the link (KIP-219) is kept to: what waits, waits where a write pause need not wait for it."""

from __future__ import annotations

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase, routing_of
from gateway.proxy.session.proxy_session import ProxySession
from protocol.errors import ErrorCode
from protocol.produce import PartitionResult, build_response_body
from tests.support.proxy.conversation import Conversation, Wire
from tests.unit.proxy.handlers.test_produce import answers, produce, route

OK = PartitionResult("mirrored", 0, 0, 40)


@pytest.fixture
def lane() -> Conversation:
    """Whose source connection is throttled for two seconds."""
    talk = Conversation()
    for topic in ("mirrored", "held"):
        talk.session.authorized[topic] = (talk.clock(), True)
    talk.context.routing.publish(routing_of({topic: route(topic) for topic in ("mirrored", "held")}))
    throttles(talk, 2_000)
    return talk


def throttles(talk: Conversation, throttle_ms: int) -> None:
    talk.says(produce(0, ("mirrored", 0)))
    talk.source.node.answer(build_response_body(9, [OK], throttle_ms=throttle_ms))
    assert talk.client.written.endswith(build_response_body(9, [OK], throttle_ms=throttle_ms)), "the client is told"
    talk.client.take()


def another(talk: Conversation) -> ProxySession:
    """A client of the same lane."""
    session = ProxySession(talk.context, 1)
    session.client_connected(Wire(), "10.0.0.8")  # type: ignore[arg-type]
    session.upstream_connected(Wire())  # type: ignore[arg-type]
    session.authorized["mirrored"] = (talk.clock(), True)
    session.id = talk.session.id
    return session


async def test_nothing_is_in_flight_on_a_lane_that_is_throttled(lane: Conversation) -> None:
    lane.says(produce(1, ("mirrored", 0)))
    assert len(lane.source.node.sent) == 1
    assert await lane.forwarder.drain("mirrored") == 0, "a pause ends at once"
    lane.source.node.loop.passes(2)
    assert len(lane.source.node.sent) == 2
    lane.source.node.answer(build_response_body(9, [OK]))
    assert answers(lane) == [[OK]]


async def test_a_pause_that_begins_meanwhile_holds_it(lane: Conversation) -> None:
    lane.says(produce(1, ("mirrored", 0)))
    lane.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.PAUSED)}))
    lane.source.node.loop.passes(2)
    assert len(lane.source.node.sent) == 1
    lane.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.SWITCHED)}))
    await lane.turn()
    assert len(lane.source.node.sent) == 1
    assert lane.broker.frames()


async def test_one_client_at_a_time_until_the_source_has_room(lane: Conversation) -> None:
    others = [another(lane) for _ in range(2)]
    lane.says(produce(1, ("mirrored", 0)))
    for session in others:
        session.client_data(produce(1, ("mirrored", 0)))
    lane.source.node.loop.passes(2)
    assert len(lane.source.node.sent) == 2
    lane.source.node.answer(build_response_body(9, [OK], throttle_ms=500))
    lane.source.node.loop.passes(0.5)
    assert len(lane.source.node.sent) == 3
    lane.source.node.answer(build_response_body(9, [OK]))
    assert len(lane.source.node.sent) == 4
    assert not lane.source.node.rest.active


async def test_who_waits_too_long_is_told_to_be_quiet_and_comes_again(lane: Conversation) -> None:
    lane.says(produce(1, ("mirrored", 0)))
    lane.loop.fire()
    frame = lane.client.take()
    results = [PartitionResult("mirrored", 0, int(ErrorCode.NOT_ENOUGH_REPLICAS), -1)]
    assert int.from_bytes(frame[-5:-1], "big") == 2_000, "throttle_time_ms"
    assert results[0].error_code in frame[:40]


async def test_what_is_answered_in_other_bytes_says_it_too(lane: Conversation) -> None:
    """Two topics: the answer is not the source's own."""
    lane.source.node.loop.passes(2)
    lane.says(produce(1, ("mirrored", 0), acks=-1, version=9))
    lane.source.node.answer(
        build_response_body(9, [PartitionResult("mirrored", 0, int(ErrorCode.REQUEST_TIMED_OUT), -1)], throttle_ms=700)
    )
    assert int.from_bytes(lane.client.take()[-5:-1], "big") == 700


async def test_what_a_pause_waits_for_is_said(lane: Conversation) -> None:
    lane.source.node.loop.passes(2)
    assert lane.forwarder.blocked_by("mirrored") == ""
    lane.says(produce(1, ("mirrored", 0)))
    assert lane.forwarder.blocked_by("mirrored") == (
        "the source throttles writes of link 'west' for 2 s more (throttle_time_ms); raise the produce quota of the "
        "link's principal there"
    )
    lane.clock.now += 2
    assert lane.forwarder.blocked_by("mirrored") == ""
    assert lane.context.stats.rests.seconds == {"west": 2.0}
