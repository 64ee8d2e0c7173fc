"""The channel between gateways, over real sockets of this machine."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from gateway.fleet.peers import wire as peer_wire
from gateway.fleet.peers.channel import PeerRefused, Peers, PeerUnavailable
from gateway.kafka.connection.errors import NetError
from tests.support.fakes.stream_server import StreamServer
from tests.support.waiting import wait_until_async

HOST = "127.0.0.1"


class Gateway:
    """One end, with what it heard."""

    def __init__(self, name: str, secret: str = "s", incarnation: str = "1") -> None:
        self.heartbeats: list[tuple[str, Mapping[str, Any]]] = []
        self.secret = secret
        self.peers = Peers(
            name, incarnation, lambda: self.secret, lambda who, said: self.heartbeats.append((who, said))
        )
        self.port = 0

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


@asynccontextmanager
async def gateways(*made: Gateway) -> AsyncIterator[None]:
    try:
        for one in made:
            one.port = await one.peers.listen(HOST, 0)
        for one in made:
            one.peers.expect({other.peers.name: other.address for other in made})
        yield
    finally:
        await asyncio.gather(*(one.peers.close() for one in made))


async def test_questions_and_answers_go_both_ways() -> None:
    one, other = Gateway("one"), Gateway("other")

    async def double(body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"twice": body["number"] * 2, "asked by": body["from"]}

    one.peers.handlers["double"] = other.peers.handlers["double"] = double
    async with gateways(one, other):
        assert await one.peers.ask("other", "double", {"number": 4}, 5) == {"twice": 8, "asked by": "one"}
        assert await other.peers.ask("one", "double", {"number": 5, "from": "me"}, 5) == {
            "twice": 10,
            "asked by": "other",
        }
        assert one.peers.connected() == {"other"}


async def test_a_refusal_comes_back_with_its_reason() -> None:
    one, other = Gateway("one"), Gateway("other")

    async def refuse(body: Mapping[str, Any]) -> Mapping[str, Any]:
        raise NetError("epoch 4 is over")

    async def fail(body: Mapping[str, Any]) -> Mapping[str, Any]:
        raise RuntimeError("a bug")

    other.peers.handlers.update(refuse=refuse, fail=fail)
    async with gateways(one, other):
        with pytest.raises(PeerRefused, match="gateway 'other': epoch 4 is over"):
            await one.peers.ask("other", "refuse", {}, 5)
        with pytest.raises(PeerRefused, match="a bug"):
            await one.peers.ask("other", "fail", {}, 5)
        with pytest.raises(PeerRefused, match="'unheard-of' is not known here"):
            await one.peers.ask("other", "unheard-of", {}, 5)


async def test_heartbeats_come_in_order_and_name_their_sender() -> None:
    one, other = Gateway("one"), Gateway("other")
    async with gateways(one, other):
        await wait_until_async(lambda: one.peers.connected() == {"other"})
        for number in range(100):
            one.peers.heartbeat({"number": number})
        await wait_until_async(lambda: len(other.heartbeats) == 100)
        assert other.heartbeats == [("one", {"number": number}) for number in range(100)]


async def test_whoever_does_not_know_the_secret_is_not_let_in() -> None:
    one, stranger = Gateway("one"), Gateway("stranger", secret="another")
    async with gateways(one, stranger):
        with pytest.raises(PeerUnavailable, match="it does not know the secret of this fleet"):
            await stranger.peers.ask("one", "anything", {}, 0.5)
        stranger.peers.heartbeat({})
        assert one.heartbeats == []
        assert "secret" in one.peers.why_not("stranger")
        stranger.secret = "s"  # it was not known yet
        await wait_until_async(lambda: stranger.peers.connected() == {"one"}, 5)


async def test_a_handshake_cannot_be_played_back() -> None:
    """What a gateway has once proved is worth nothing on another connection."""
    one, other = Gateway("one"), Gateway("other")
    async with gateways(one, other):
        replayed = {
            "name": "other",
            "incarnation": "1",
            "to": "one",
            "nonce": "b",
            "proof": peer_wire.proof("s", "dial", "an earlier nonce", "b", "other", "1", "one"),
        }
        reader, writer = await asyncio.open_connection(HOST, one.port)
        await peer_wire.read(reader)
        writer.write(peer_wire.encode(replayed))
        assert "secret" in (await peer_wire.read(reader))["refused"]
        assert await reader.read() == b""
        writer.close()


async def test_a_greeting_without_end_is_cut_off() -> None:
    one = Gateway("one")
    async with gateways(one):
        reader, writer = await asyncio.open_connection(HOST, one.port)
        await peer_wire.read(reader)
        writer.write(struct.pack(">I", 1 << 30))
        assert await reader.read() == b""
        writer.close()


async def test_a_question_to_nobody_ends_in_time() -> None:
    one, other = Gateway("one"), Gateway("other")

    async def never(body: Mapping[str, Any]) -> Mapping[str, Any]:
        await asyncio.Event().wait()
        return {}

    other.peers.handlers["never"] = never
    async with gateways(one, other):
        with pytest.raises(PeerUnavailable, match="not among the fleet's members"):
            await one.peers.ask("third", "x", {}, 5)
        with pytest.raises(PeerUnavailable, match=r"did not answer 'never' within 0\.1 s"):
            await one.peers.ask("other", "never", {}, 0.1)


async def test_the_handler_of_a_question_that_nobody_waits_for_is_cancelled() -> None:
    one, other = Gateway("one"), Gateway("other")
    cancelled = asyncio.Event()

    async def never(body: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return {}

    other.peers.handlers["never"] = never
    async with gateways(one, other):
        with pytest.raises(PeerUnavailable):
            await one.peers.ask("other", "never", {}, 0.1)
        async with asyncio.timeout(5):
            await cancelled.wait()


async def test_a_process_that_ended_is_told_at_once_and_its_successor_found() -> None:
    one, other = Gateway("one"), Gateway("other")
    gone: list[str] = []
    one.peers.on_gone = gone.append
    async with gateways(one, other):
        await wait_until_async(lambda: one.peers.connected() == {"other"})
        await other.peers.close()
        await wait_until_async(lambda: gone == ["other"], 5)
        assert "refused" in one.peers.why_not("other")
        successor = Gateway("other", incarnation="2")
        await successor.peers.listen(HOST, other.port)
        try:
            await wait_until_async(lambda: one.peers.connected() == {"other"}, 5)
        finally:
            await successor.peers.close()


async def test_a_heartbeat_for_a_peer_that_does_not_read_is_dropped() -> None:
    """Nothing piles up, and nothing waits: the channel's own end is a socket that nobody reads from."""
    one = Gateway("one")

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(peer_wire.encode({"nonce": "a"}))
        hello = await peer_wire.read(reader)
        said = peer_wire.proof("s", "accept", "a", hello["nonce"], "deaf", "1")
        writer.write(peer_wire.encode({"name": "deaf", "incarnation": "1", "proof": said}))
        cast("asyncio.Transport", writer.transport).pause_reading()
        await writer.wait_closed()

    server = StreamServer(accept)
    try:
        one.peers.expect({"deaf": f"{HOST}:{await server.listen()}"})
        await wait_until_async(lambda: one.peers.connected() == {"deaf"})
        body = {"padding": "x" * 50_000}
        assert one.peers.tell("deaf", body)

        def drops() -> bool:
            return not all(one.peers.tell("deaf", body) for _ in range(20))

        await wait_until_async(drops, 10, what="a heartbeat that is dropped")
    finally:
        await one.peers.close()
        await server.close()
