"""Before a login: what strangers hold never stops a client that has logged in, nor another stranger who logs in."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from gateway.proxy.rules.loop_shares import SLICE_S
from gateway.proxy.rules.turn_slices import STRANGERS_S, TurnSlices
from gateway.proxy.rules.unproven_requests import OVER
from gateway.proxy.session.proxy_session import ProxySession
from gateway.proxy.session.session import CLOSE_S
from gateway.proxy.session.sides import ClientSide
from gateway.transport.first_reads import FirstReads
from protocol.apis import ApiKey
from protocol.codec import encode_request
from protocol.messages import HeartbeatRequest, SaslHandshakeRequest
from tests.support.proxy.conversation import Conversation, Wire
from tests.support.proxy.limits import limits_with
from tests.support.proxy.login import LoggingIn

SIZE = 65_000


class Peer:
    """One more client. `host`: its address. Without `broker` it is not connected to one yet."""

    def __init__(self, talk: Conversation, host: str = "10.0.0.8", *, broker: bool = True) -> None:
        self.client, self.broker = Wire(), Wire()
        self.session = ProxySession(talk.context, 1)
        self.reason = ""
        self.session.client_connected(cast("Any", self.client), host)
        if broker:
            self.session.upstream_connected(cast("Any", self.broker))

    def says(self, data: bytes) -> None:
        self.session.client_data(data)

    def half_a_login(self) -> None:
        """All of a request of a login but its last byte."""
        head = struct.pack(">ihhih", SIZE, ApiKey.SASL_AUTHENTICATE, 2, 1, -1) + b"\0"
        self.says(head + bytes(SIZE - len(head) + 4 - 1))


@pytest.fixture
async def talk() -> Conversation:
    return Conversation(asks_login=True, limits=limits_with())


def handshake() -> bytes:
    return encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "me")


async def test_a_client_that_has_logged_in_is_read_whatever_strangers_hold() -> None:
    talk = Conversation(asks_login=True, limits=limits_with(held_request_bytes=16 << 20))
    login = LoggingIn(talk)
    login.plain("alice")
    talk.says(heartbeat(SIZE)[:40_000])
    await login.broker_takes_it()
    strangers = [Peer(talk, f"10.1.{number >> 8}.{number & 255}") for number in range(600)]
    for each in strangers:
        each.half_a_login()
    assert talk.client.reading
    assert talk.context.held.bytes < 41_000
    assert talk.context.unproven.bytes <= 1 << 20
    assert talk.context.stats.closed[OVER] > 500


def heartbeat(size: int = 1) -> bytes:
    message = HeartbeatRequest(group_id="g" * min(size, 32_000), generation_id=1, member_id="m" * 16_000)
    return encode_request(message, 0, 7, "me")


async def test_one_address_closes_its_own_and_others_log_in(talk: Conversation) -> None:
    other = Peer(talk, "10.0.0.9")
    other.says(handshake()[:20])
    for _ in range(600):
        Peer(talk).half_a_login()
    assert talk.context.unproven.bytes <= (512 << 20) / 16 / 8 + 20
    assert not other.session.closed
    other.says(handshake()[20:])
    assert len(other.broker.frames()) == 1


async def test_a_request_before_a_login_is_as_small_as_one(talk: Conversation) -> None:
    peer = Peer(talk)
    peer.says(struct.pack(">ihhih", 65_537, ApiKey.SASL_AUTHENTICATE, 2, 1, -1))
    assert peer.session.closed


async def test_what_was_held_counts_elsewhere_from_the_login_on(talk: Conversation) -> None:
    login = LoggingIn(talk)
    login.plain("alice")
    talk.says(heartbeat(20_000)[:10_000])
    assert (talk.context.unproven.bytes, talk.context.held.bytes) == (10_000, 0)
    await login.broker_takes_it()
    assert talk.context.unproven.bytes == 0
    talk.says(heartbeat(20_000)[10_000:])
    talk.broker.take()
    login.handshake()  # logs in again: it is no stranger
    talk.says(struct.pack(">ihhih", SIZE, ApiKey.SASL_AUTHENTICATE, 2, 1, -1) + bytes(100))
    assert talk.context.unproven.bytes == 0
    talk.session.close("over")
    assert (talk.context.unproven.bytes, talk.context.held.bytes) == (0, 0)


async def test_a_stranger_is_not_read_ahead(talk: Conversation) -> None:
    peer = Peer(talk, broker=False)
    peer.says(handshake())
    read = [peer.client.reading]
    peer.session.upstream_connected(cast("Any", peer.broker))
    assert [*read, peer.client.reading] == [False, True]
    assert len(peer.broker.frames()) == 1


async def test_who_is_closed_keeps_nothing(talk: Conversation) -> None:
    peer = Peer(talk, broker=False)
    peer.says(handshake())
    peer.session.close("over")
    assert not peer.session._backlog
    assert talk.context.unproven.bytes == 0


@pytest.mark.parametrize("asks_login", [True, False])
async def test_no_broker_is_asked_for_before_a_whole_head_is_there(asks_login: bool) -> None:
    talk = Conversation(asks_login=asks_login)
    asked: list[Any] = []
    talk.context.connect = asked.append
    peer = Peer(talk, broker=False)
    data = handshake()
    for at in range(13):
        peer.says(data[at : at + 1])
    assert asked == []
    assert peer.client.reading
    peer.says(data[13:14])
    assert asked == [peer.session]
    peer.says(data[14:])
    peer.session.upstream_connected(cast("Any", peer.broker))
    assert peer.broker.take() == data


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\nHost: x\r\n", bytes(20), struct.pack(">ihhih", 30, 999, 0, 1, -1)]
)
async def test_no_broker_is_asked_for_by_garbage(talk: Conversation, garbage: bytes) -> None:
    asked: list[Any] = []
    talk.context.connect = asked.append
    peer = Peer(talk, broker=False)
    peer.says(garbage)
    assert (asked, peer.session.closed) == ([], True)


MANY = 300


async def turn() -> None:
    """One of the event loop."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.call_soon(over.set_result, None)
    await over


class Crowd:
    """Clients on real sockets, whose gateway takes `seconds` to read one of them."""

    def __init__(self, talk: Conversation, seconds: float) -> None:
        self.talk = talk
        self.now = 5.0
        self.read_in_turn = [0]
        loop = talk.context.wires.loop = asyncio.get_running_loop()
        slices = TurnSlices(lambda: self.now, loop.call_soon)
        talk.context.first_reads = FirstReads(loop, slices.when_due)
        self.clients: list[socket.socket] = []
        self.sides: list[ClientSide] = []
        for _ in range(MANY):
            ours, client = socket.socketpair()
            ours.setblocking(False)
            side = ClientSide(talk.context, 1, None, "10.0.0.8")
            cast("Any", side).data_received = self._read(side.data_received, seconds)
            side.accepted(ours)
            self.clients.append(client)
            self.sides.append(side)

    def _read(self, read: Callable[[Any], None], seconds: float) -> Callable[[Any], None]:
        def reads(data: Any) -> None:
            self.now += seconds
            self.read_in_turn[-1] += 1
            read(data)

        return reads

    async def until(self, count: int) -> None:
        """Turns of the loop until so many were read."""
        async with asyncio.timeout(20):
            while sum(self.read_in_turn) < count:
                self.read_in_turn.append(0)
                await turn()

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for side in self.sides:
            side._session.close("over")
        self.talk.context.first_reads.close()


@pytest.fixture
async def crowd(talk: Conversation) -> AsyncIterator[Crowd]:
    crowd = Crowd(talk, STRANGERS_S / 5)
    yield crowd
    crowd.close()


async def test_a_turn_reads_few_strangers_however_many_have_sent_something(crowd: Crowd) -> None:
    for client in crowd.clients:
        client.sendall(handshake()[:9])
    await crowd.until(MANY)
    assert max(crowd.read_in_turn) <= 10  # the rest of the slice before, and a whole one
    for client in crowd.clients:
        client.sendall(handshake()[9:10])
    await crowd.until(2 * MANY)
    assert max(crowd.read_in_turn) <= 10


async def test_who_has_logged_in_is_no_stranger_on_the_wire(crowd: Crowd) -> None:
    crowd.clients[0].sendall(handshake()[:9])
    await crowd.until(1)
    crowd.sides[0]._session._client.trusted()
    for client in crowd.clients:
        client.sendall(handshake()[9:10])
    await crowd.until(MANY + 1)
    assert len(crowd.talk.context.first_reads._readers) == MANY - 1


async def test_clients_that_end_together_are_closed_in_turns(talk: Conversation) -> None:
    peers = [Peer(talk) for _ in range(MANY)]
    for each in peers:
        each.session.close_in_turn("client closed")
    closed = [sum(each.session.closed for each in peers)]
    assert closed[0] <= SLICE_S / CLOSE_S
    async with asyncio.timeout(20):
        while closed[-1] < MANY:
            await turn()
            closed.append(sum(each.session.closed for each in peers))
            assert closed[-1] - closed[-2] <= 2 * SLICE_S / CLOSE_S
