"""A connection's requests and answers take a slice of a turn of the event loop, and go on in the next one."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, cast

from gateway.proxy.rules.loop_shares import BURST_S, SLICE_S
from gateway.proxy.session.proxy_session import ProxySession
from gateway.proxy.session.session import MOST_UNANSWERED
from protocol.apis import ApiKey
from protocol.codec import encode_request
from protocol.header import frame_request, peek_request_header
from protocol.messages import HeartbeatRequest, MetadataRequest
from tests.support.proxy.conversation import Conversation, Wire

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

MANY = 40
HALF_S = SLICE_S * 0.51


def heartbeat(correlation_id: int) -> bytes:
    return encode_request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 0, correlation_id, "me")


def metadata(correlation_id: int) -> bytes:
    return encode_request(MetadataRequest(topics=[]), 9, correlation_id, "me")


class Slow:
    """Takes its time for a request, and for its answer."""

    def __init__(self, talk: Conversation, request_s: float, answer_s: float) -> None:
        self.talk, self.request_s, self.answer_s = talk, request_s, answer_s

    def intercepts(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        self.talk.clock.now += self.request_s

        def answered(frame: memoryview) -> bytes:
            self.talk.clock.now += self.answer_s
            return struct.pack(">i", len(frame)) + bytes(frame)

        exchange.forward(answered)


def slow(talk: Conversation, key: ApiKey, *, request_s: float = 0.0, answer_s: float = 0.0) -> None:
    handlers: list[Any] = talk.context.handlers
    handlers[key] = Slow(talk, request_s, answer_s)


class Peer:
    """One more connection from the same address."""

    def __init__(self, talk: Conversation) -> None:
        self.client, self.broker = Wire(), Wire()
        session = ProxySession(talk.context, 1)
        session.client_connected(cast("Any", self.client), talk.session.host)
        session.upstream_connected(cast("Any", self.broker))
        self.says = session.client_data


def correlation_ids(broker: Wire) -> list[int]:
    return [peek_request_header(memoryview(frame)).correlation_id for frame in broker.frames()]


def asked(talk: Conversation) -> list[int]:
    return correlation_ids(talk.broker)


def answered(talk: Conversation) -> list[int]:
    return [struct.unpack_from(">i", frame)[0] for frame in talk.client.frames()]


def answers(*numbers: int) -> bytes:
    return b"".join(struct.pack(">ii", 4, number) for number in numbers)


async def test_requests_of_one_read_are_many_turns(talk: Conversation) -> None:
    slow(talk, ApiKey.HEARTBEAT, request_s=HALF_S)
    talk.says(b"".join(heartbeat(number) for number in range(MANY)))
    assert asked(talk) == [0, 1]
    assert not talk.client.reading
    talk.says(heartbeat(MANY))
    went: list[int] = []
    for _ in range(MANY):
        await talk.turn()
        new = asked(talk)
        assert len(new) <= 4  # of two turns: that of the test's own task is one
        went += new
    assert went == list(range(2, MANY + 1))
    assert talk.client.reading


async def test_requests_that_nobody_looks_at_are_many_turns_too(talk: Conversation) -> None:
    talk.context.clock = lambda: tick(talk)
    assert talk.context.handlers[ApiKey.DESCRIBE_ACLS] is None
    talk.says(b"".join(frame_request(ApiKey.DESCRIBE_ACLS, 2, number, "me", bytes(20)) for number in range(200)))
    first = asked(talk)
    assert 16 <= len(first) < 100
    went = first
    for _ in range(10):
        await talk.turn()
        went += asked(talk)
    assert went == list(range(200))
    assert talk.client.reading


def tick(talk: Conversation) -> float:
    """Who looks at the clock finds it further by as much as 16 requests take."""
    talk.clock.now += SLICE_S / 4
    return talk.clock.now


async def test_answers_of_one_read_are_many_turns(talk: Conversation) -> None:
    slow(talk, ApiKey.HEARTBEAT, answer_s=HALF_S)
    talk.says(b"".join(heartbeat(number) for number in range(MANY)))
    data = answers(*range(MANY))
    talk.session.upstream_data(data[:101])
    assert answered(talk) == [0, 1]
    assert not talk.broker.reading
    talk.session.upstream_data(data[101:])
    came: list[int] = []
    for _ in range(MANY):
        await talk.turn()
        new = answered(talk)
        assert len(new) <= 4  # of two turns: that of the test's own task is one
        came += new
    assert came == list(range(2, MANY))
    assert talk.broker.reading


async def test_another_client_is_served_beside_one_that_waits(talk: Conversation) -> None:
    slow(talk, ApiKey.HEARTBEAT, request_s=HALF_S)
    talk.says(b"".join(heartbeat(number) for number in range(MANY)))
    talk.broker.take()
    share = talk.context.shares.of(("", "10.0.0.8"))
    assert not talk.context.shares.is_over(share, 0.0)


async def test_so_many_requests_are_unanswered_and_no_more(talk: Conversation) -> None:
    talk.says(b"".join(heartbeat(number) for number in range(MOST_UNANSWERED + 10)))
    assert len(asked(talk)) == MOST_UNANSWERED
    assert not talk.client.reading
    talk.session.upstream_data(answers(*range(MOST_UNANSWERED // 2)))
    await talk.turn()
    assert asked(talk) == list(range(MOST_UNANSWERED, MOST_UNANSWERED + 10))
    assert talk.client.reading


async def test_single_requests_are_bounded_likewise(talk: Conversation) -> None:
    for number in range(MOST_UNANSWERED + 10):
        talk.says(heartbeat(number))
    assert len(asked(talk)) == MOST_UNANSWERED
    for number in range(MOST_UNANSWERED):
        talk.session.upstream_data(answers(number))
    await talk.turn()
    assert asked(talk) == list(range(MOST_UNANSWERED, MOST_UNANSWERED + 10))


async def test_metadata_has_a_share_of_the_time_and_heartbeats_have_none(talk: Conversation) -> None:
    slow(talk, ApiKey.METADATA, request_s=0.001)
    slow(talk, ApiKey.HEARTBEAT, request_s=0.001)
    number = 0
    while talk.client.reading and number < 1_000:
        number += 1
        talk.says(metadata(number))
        if asked(talk):
            talk.session.upstream_data(answers(number))
        await talk.turn()
    assert BURST_S / 0.001 < number < BURST_S / 0.001 * 2
    same = Peer(talk)
    same.says(heartbeat(1))
    same.says(metadata(2))
    assert correlation_ids(same.broker) == [1]
    assert not same.client.reading
    talk.clock.now += 1.0
    for _ in range(3):  # who has paid back waits for a slice, as others do
        await talk.turn()
        talk.loop.fire()
    assert asked(talk) == [number]
    assert correlation_ids(same.broker) == [2]
    assert [talk.client.reading, same.client.reading] == [True, True]


async def test_a_connection_that_ends_while_it_waits_is_not_looked_at_again(talk: Conversation) -> None:
    slow(talk, ApiKey.HEARTBEAT, request_s=SLICE_S, answer_s=SLICE_S)
    talk.says(b"".join(heartbeat(number) for number in range(4)))
    talk.session.upstream_data(answers(0))
    talk.session.close("client closed")
    talk.broker.take()
    talk.client.take()
    await talk.turn()
    await talk.turn()
    assert (asked(talk), answered(talk)) == ([], [])
