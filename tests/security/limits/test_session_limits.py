"""What one connection may take: time for its login and its requests, and answers that nobody takes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import pytest

from gateway.cutover.write_pause.rules.routing import TopicRoute, WritePhase, routing_of
from gateway.proxy.session.timeouts import Timeouts
from protocol.apis import ApiKey
from protocol.codec import encode_request
from protocol.header import frame_request
from protocol.messages import HeartbeatRequest
from protocol.produce import PartitionResult, build_request_body, build_response_body
from protocol.wire import Buffer
from tests.support.control.pausing import in_phase
from tests.support.mirror.batches import make_batch
from tests.support.proxy.conversation import Conversation, Wire
from tests.support.proxy.limits import limits_with
from tests.support.proxy.login import LoggingIn

if TYPE_CHECKING:
    from gateway.proxy.session.session import Connected


def heartbeat(group: str = "g", correlation_id: int = 7) -> bytes:
    message = HeartbeatRequest(group_id=group, generation_id=1, member_id="m", group_instance_id=None)
    return encode_request(message, 3, correlation_id, "me")


def refused(correlation_id: int) -> bytes:
    """A request that the gateway answers by itself."""
    return heartbeat("__lockgate.fleet", correlation_id)


class Sweep:
    """Looks at a conversation's session when told to."""

    def __init__(self, talk: Conversation, idle_s: float = 600) -> None:
        self._talk = talk
        self._timeouts = Timeouts(talk.context.limits, idle_s)

    def after(self, seconds: float) -> list[str]:
        """Look again so much later."""
        self._talk.clock.now += seconds
        return [reason for _, reason in self._timeouts.look(self._talk.context.open, self._talk.clock())]


async def test_a_login_has_its_time(secured: LoggingIn) -> None:
    sweep = Sweep(secured.talk)
    assert sweep.after(29) == []
    secured.handshake()
    assert sweep.after(29) == []
    secured.says(b"\0alice\0secret")
    assert sweep.after(2) == ["login took too long"]


async def test_who_has_logged_in_has_all_the_time_until_the_next_login(secured: LoggingIn) -> None:
    talk, sweep = secured.talk, Sweep(secured.talk)
    secured.plain("alice", lifetime_ms=60_000)
    talk.says(heartbeat())
    await secured.broker_takes_it()
    talk.broker.take()
    talk.broker_says(7)
    assert sweep.after(60) == []
    talk.loop.fire()  # the lifetime is over; an idle client need not come
    assert sweep.after(60) == []
    secured.handshake()
    assert sweep.after(31) == ["login took too long"]


async def test_a_request_that_trickles_in(talk: Conversation) -> None:
    sweep, data = Sweep(talk), heartbeat()
    talk.says(data[:16])
    assert sweep.after(1) == []
    for at in range(16, 22):
        talk.says(data[at : at + 1])
        assert sweep.after(9) == []
    talk.says(data[22:23])
    assert sweep.after(9) == ["request took too long"]


async def test_a_head_that_trickles_in(talk: Conversation) -> None:
    sweep = Sweep(talk)
    talk.says(heartbeat()[:5])
    assert sweep.after(1) == []
    assert sweep.after(61) == ["request took too long"]


async def test_requests_that_come_whole_have_no_end(talk: Conversation) -> None:
    """Each look finds one in the midst, but always another one."""
    sweep, data = Sweep(talk), heartbeat()
    talk.says(data[:20])
    for _ in range(20):
        assert sweep.after(9) == []
        talk.says(data[20:] + data[:20])


async def test_a_request_that_the_gateway_does_not_read_is_not_late(talk: Conversation) -> None:
    sweep = Sweep(talk)
    talk.says(heartbeat()[:20])
    talk.session.pause_client(True)  # the broker is slow
    assert [sweep.after(60) for _ in range(3)] == [[], [], []]
    talk.session.pause_client(False)
    assert sweep.after(1) == []
    assert sweep.after(61) == ["request took too long"]


async def test_answers_that_are_not_taken(talk: Conversation) -> None:
    sweep = Sweep(talk)
    talk.says(heartbeat())
    talk.session.pause_upstream(True)
    assert sweep.after(1) == []
    assert sweep.after(599) == []
    talk.session.pause_upstream(False)
    assert sweep.after(1) == []
    talk.session.pause_upstream(True)
    assert sweep.after(1) == []
    assert sweep.after(601) == ["answers are not taken"]


class FullWire(Wire):
    """A client that takes nothing: its socket is full after so many bytes."""

    def __init__(self, talk: Conversation, room: int) -> None:
        super().__init__()
        self._talk = talk
        self._room = room

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        super().writelines([bytes(piece) for piece in pieces])
        if len(self.written) > self._room:
            self._talk.session.pause_upstream(True)


async def test_requests_buy_no_more_answers_than_are_taken(talk: Conversation) -> None:
    client = FullWire(talk, 1_000)
    talk.session._client = cast("Connected", client)
    talk.says(b"".join(refused(number) for number in range(1_000)))
    assert len(client.written) < 1_100
    assert not client.reading
    numbers = []
    while frames := client.frames():
        numbers += [struct.unpack_from(">i", frame)[0] for frame in frames]
        talk.session.pause_upstream(False)
        await talk.turn()
    assert numbers == list(range(1_000))
    assert client.reading


@pytest.fixture
async def small() -> Conversation:
    return Conversation(limits=limits_with(unread_output_bytes=3_000))


async def test_answers_that_wait_for_their_turn_are_bounded(small: Conversation) -> None:
    """The first request waits for the broker, what follows is answered here."""
    talk = small
    talk.says(heartbeat())
    for number in range(2_000):
        if not talk.client.reading:
            break
        talk.says(refused(number))
    assert talk.session._sequencer.waiting_bytes < 3_100
    assert (talk.client.reading, talk.broker.reading) == (False, True)  # all wait for the broker
    assert talk.client.take() == b""
    talk.broker_says(7)
    frames = talk.client.frames()
    assert [struct.unpack_from(">i", frame)[0] for frame in frames] == [7, *range(len(frames) - 1)]
    assert (talk.client.reading, talk.broker.reading) == (True, True)
    assert talk.session._sequencer.waiting_bytes == 0


async def test_answers_of_the_broker_that_wait_are_bounded_too(small: Conversation) -> None:
    """The first request waits for the source; the broker is read on when its answer is what is waited for."""
    talk = small
    route = TopicRoute(
        link="west", mirror_topic="mirrored", source_topic="mirrored", pause=in_phase(WritePhase.FORWARD)
    )
    talk.context.routing.publish(routing_of({"mirrored": route}))
    talk.session.authorized["mirrored"] = (talk.clock(), True)
    body = build_request_body(9, None, -1, 5_000, {"mirrored": [(0, make_batch(0, 1))]})
    talk.says(frame_request(int(ApiKey.PRODUCE), 9, 1, "me", b"".join(bytes(piece) for piece in body)))
    talk.says(heartbeat(correlation_id=2) + heartbeat(correlation_id=3))
    talk.broker_says(2, bytes(20_000))
    assert (talk.client.reading, talk.broker.reading) == (False, False)
    talk.source.node.answer(build_response_body(11, [PartitionResult("mirrored", 0, 0, 5, -1, 0, None)]))
    assert [struct.unpack_from(">i", frame)[0] for frame in talk.client.frames()] == [1, 2]
    assert (talk.client.reading, talk.broker.reading) == (True, True)
    talk.broker_says(3)
    assert [struct.unpack_from(">i", frame)[0] for frame in talk.client.frames()] == [3]


async def test_what_came_in_one_read_waits_too(small: Conversation) -> None:
    talk = small
    talk.says(heartbeat() + b"".join(refused(number) for number in range(2_000)))
    assert talk.session._sequencer.waiting_bytes < 10_100
    talk.broker_says(7)
    await talk.turn()
    frames = talk.client.frames()
    assert [struct.unpack_from(">i", frame)[0] for frame in frames] == [7, *range(2_000)]
    assert int(ApiKey.HEARTBEAT) not in [exchange.api_key for exchange in talk.session._sequencer.queue]
