"""Answers that clients do not take have a bound for each client and for all; who only reads slowly is served."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, cast

import pytest

from gateway.proxy.rules.held_answers import PATIENCE_S
from gateway.proxy.session.proxy_session import ProxySession
from protocol.apis import ApiKey
from protocol.codec import encode_request, encode_response
from protocol.messages import HeartbeatRequest, MetadataRequest, MetadataResponse
from protocol.wire import Buffer
from tests.support.proxy.conversation import Conversation, Wire
from tests.support.proxy.limits import limits_with

ANSWER = 900_000
HIGH_WATER = 65_536
OF_CLIENT = 1 << 20
METADATA = encode_request(MetadataRequest(topics=None, allow_auto_topic_creation=False), 9, 7, "me")
HEARTBEAT = encode_request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 0, 7, "me")


def large_answer() -> bytes:
    """Of Metadata."""
    kind = MetadataResponse.MetadataResponseTopic
    topics = [kind(error_code=0, name="t".ljust(200, "x"), is_internal=False, partitions=[])] * (ANSWER // 208)
    answer = MetadataResponse(throttle_time_ms=0, brokers=[], cluster_id="c", controller_id=1, topics=topics)
    return encode_response(answer, ApiKey.METADATA, 9, 7)


LARGE_ANSWER = large_answer()


class Socket(Wire):
    """Takes what its client reads, and tells when more than should waits."""

    session: ProxySession

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        super().writelines([bytes(piece) for piece in pieces])
        self.unsent += sum(map(len, pieces))
        if self.unsent > HIGH_WATER:
            self.session.pause_upstream(True)

    def reads(self, count: int) -> None:
        self.unsent = max(0, self.unsent - count)
        if not self.unsent:
            self.session.pause_upstream(False)


class Peer:
    """One more client of the same gateway."""

    def __init__(self, talk: Conversation, host: str = "10.0.0.8") -> None:
        self.client, self.broker = Socket(), Wire()
        self.session = self.client.session = ProxySession(talk.context, 1)
        self.session.client_connected(cast("Any", self.client), host)
        self.session.upstream_connected(cast("Any", self.broker))

    def asks(self) -> None:
        self.session.client_data(METADATA)
        self.is_answered()

    def is_answered(self) -> None:
        """If the broker was asked."""
        if self.broker.take():
            self.session.upstream_data(LARGE_ANSWER)


@pytest.fixture
async def talk() -> Conversation:
    return Conversation(limits=limits_with(held_answer_bytes=4 * OF_CLIENT))


async def test_many_that_read_nothing_hold_the_part_of_a_client(talk: Conversation) -> None:
    peers = [Peer(talk) for _ in range(50)]
    for peer in peers:
        peer.asks()
    answers = talk.context.answers
    assert answers.bytes <= OF_CLIENT + ANSWER
    assert sum(len(peer.client.written) for peer in peers) <= OF_CLIENT
    assert [peer.client.reading or peer.broker.reading for peer in peers[:2]] == [False, True]
    assert not any(peer.client.reading for peer in peers[2:])
    other = Peer(talk, "10.0.0.9")
    other.asks()
    assert len(other.client.written) == len(LARGE_ANSWER)


async def test_whoever_waited_is_served_when_others_have_read(talk: Conversation) -> None:
    peers = [Peer(talk) for _ in range(3)]
    for peer in peers:
        peer.asks()
    for _ in range(3):
        for peer in peers:
            peer.client.reads(ANSWER * 2)
            await talk.turn()
            peer.is_answered()
    assert [len(peer.client.written) for peer in peers] == [len(LARGE_ANSWER)] * 3
    assert [(peer.client.reading, peer.broker.reading) for peer in peers] == [(True, True)] * 3
    assert (talk.context.answers.bytes, talk.context.answers.waiting) == (0, 0)


async def test_a_request_for_much_is_not_looked_at_without_room(talk: Conversation) -> None:
    one, other = Peer(talk), Peer(talk)
    one.asks()
    talk.context.answers.holds(one.session, OF_CLIENT)
    other.session.client_data(METADATA)
    assert (other.broker.take(), other.client.reading) == (b"", False)
    talk.context.answers.holds(one.session, 0)
    await talk.turn()
    assert (other.broker.take() != b"", other.client.reading) == (True, True)


async def test_a_heartbeat_goes_beside_what_is_not_taken(talk: Conversation) -> None:
    peers = [Peer(talk) for _ in range(3)]
    for peer in peers:
        peer.asks()
    member = Peer(talk)
    member.session.client_data(HEARTBEAT)
    assert member.broker.take() == HEARTBEAT
    answer = struct.pack(">iiih", 10, 7, 0, 0)
    member.session.upstream_data(answer)
    assert member.client.take() == answer


async def test_who_reads_nothing_is_closed_for_others_and_who_reads_slowly_is_not(talk: Conversation) -> None:
    slow, mute, waiting = Peer(talk), Peer(talk, "10.0.0.9"), Peer(talk)
    for peer in (slow, mute, waiting):
        peer.asks()
    assert (len(waiting.client.written), mute.session.closed) == (0, False)
    for second in range(0, int(4 * PATIENCE_S), 3):
        slow.client.reads(3_000)
        assert not list(talk.context.answers.too_slow(float(second)))
    found = []
    for second in range(int(4 * PATIENCE_S), int(6 * PATIENCE_S), 3):
        for taker in talk.context.answers.too_slow(float(second)):
            taker.close("too slow")
            found.append(taker)
    await talk.turn()
    waiting.is_answered()
    assert found == [slow.session]
    assert len(waiting.client.written) == len(LARGE_ANSWER)


async def test_a_closed_one_gives_its_room_back(talk: Conversation) -> None:
    one, other = Peer(talk), Peer(talk)
    one.asks()
    other.asks()
    one.session.close("client closed")
    await talk.turn()
    assert len(other.client.written) == len(LARGE_ANSWER)
    other.session.close("client closed")
    assert (talk.context.answers.bytes, talk.context.answers.waiting) == (0, 0)
