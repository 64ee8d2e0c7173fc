"""Clients behind a load balancer: their own addresses count, and nobody else can claim one."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.proxy.rules.limits import Limits
from gateway.proxy.session.behind_proxy import read_header
from gateway.proxy.session.context import Sessions
from protocol.apis import ApiKey
from tests.support.gateways.listening import is_closed, listening
from tests.support.identities.self_signed import self_signed
from tests.support.proxy.limits import limits_with
from tests.support.waiting import wait_until_async

HOST = "127.0.0.1"
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
HEAD = struct.pack(">ihhih", 30, ApiKey.API_VERSIONS, 3, 1, -1)
"""Of a request: a broker is asked for."""


def line(client: str) -> bytes:
    return f"PROXY TCP4 {client} 10.0.0.1 40000 9292\r\n".encode()


def binary(client: str) -> bytes:
    packed = [ipaddress.ip_address(each).packed for each in (client, "10.0.0.1")]
    return SIGNATURE + b"\x21\x11" + struct.pack(">H", 12) + b"".join(packed) + struct.pack(">HH", 40_000, 9_292)


class Place:
    """The bootstrap port of a gateway. `began`: sessions whose clients have said something."""

    def __init__(self, sessions: Sessions, port: int) -> None:
        self.sessions = sessions
        self.port = port
        self.began: list[Any] = []
        self._writers: list[asyncio.StreamWriter] = []
        sessions.connect = self.began.append

    async def connect(self, first: bytes = b"") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        self._writers.append(writer)
        writer.write(first)
        return reader

    @property
    def hosts(self) -> list[str]:
        return [session.host for session in self.sessions.open]

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def place_at(
    port: int, *, proxies: str = HOST, tls: ssl.SSLContext | None = None, limits: Limits | None = None
) -> AsyncIterator[Place]:
    async with listening(port, proxies=[proxies], tls=tls, limits=limits) as sessions:
        place = Place(sessions, port)
        try:
            yield place
        finally:
            place.close()


@pytest.mark.parametrize("header", [line, binary])
async def test_the_client_is_who_the_load_balancer_names(
    unused_port: Callable[[], int], header: Callable[[str], bytes]
) -> None:
    async with place_at(unused_port()) as place:
        await place.connect(header("203.0.113.7") + HEAD)
        await wait_until_async(lambda: bool(place.began))
        assert place.hosts == ["203.0.113.7"]


@pytest.mark.parametrize("header", [line, binary])
async def test_a_header_may_come_in_pieces(header: Callable[[str], bytes]) -> None:
    """Not a byte of it stays in the socket, and not one behind it is taken."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        reading = asyncio.create_task(read_header(asyncio.get_running_loop(), ours), name="header")

        def is_taken() -> bool:
            try:
                return not ours.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return True

        *head, last = (bytes((byte,)) for byte in header("203.0.113.7"))
        for byte in head:
            theirs.send(byte)
            await wait_until_async(is_taken)
            assert not reading.done()
        theirs.send(last + b"what follows")
        assert await reading == header("203.0.113.7")
        assert ours.recv(100) == b"what follows"


async def test_checks_of_the_load_balancer_are_its_own(unused_port: Callable[[], int]) -> None:
    async with place_at(unused_port()) as place:
        await place.connect(SIGNATURE + b"\x20\x00\x00\x00")
        await wait_until_async(lambda: place.hosts == [HOST])


async def test_nobody_else_gets_in(unused_port: Callable[[], int]) -> None:
    """Whoever could send a header could choose the address that limits and logs see."""
    async with place_at(unused_port(), proxies="10.0.0.0/8") as place:
        assert await is_closed(await place.connect(line("203.0.113.7")))
        assert place.sessions.admission.refused == {"proxy": 1}
        assert not place.sessions.open


@pytest.mark.parametrize("said", [b"\x00\x00\x00\x17\x00\x12\x00\x03", b"PROXY TCP4 1.2.3.4\r\n", b"PROXY TCP4", b""])
async def test_without_a_header_nobody_gets_in(unused_port: Callable[[], int], said: bytes) -> None:
    """Neither with one that does not come to its end."""
    async with place_at(unused_port(), limits=limits_with(login_timeout_s=0.2)) as place:
        assert await is_closed(await place.connect(said))
        assert place.sessions.admission.refused == {"header": 1}
        assert not place.sessions.open


async def test_limits_count_clients_not_the_load_balancer(unused_port: Callable[[], int]) -> None:
    async with place_at(unused_port(), limits=limits_with(connections_per_address=1)) as place:
        await place.connect(line("203.0.113.7"))
        await place.connect(line("203.0.113.8"))
        await wait_until_async(lambda: place.hosts == ["203.0.113.7", "203.0.113.8"])
        assert await is_closed(await place.connect(line("203.0.113.7")))
        assert place.sessions.admission.refused == {"address": 1}


async def test_who_is_not_named_yet_counts_among_all(unused_port: Callable[[], int]) -> None:
    async with place_at(unused_port(), limits=limits_with(connections=1)) as place:
        await place.connect()
        await is_closed(await place.connect(line("203.0.113.7")))
        assert place.sessions.admission.refused == {"connections": 1}
        place.close()
        await wait_until_async(lambda: place.sessions.admission.refused.get("header") == 1)  # it left, unnamed
        await place.connect(line("203.0.113.7"))
        await wait_until_async(lambda: place.hosts == ["203.0.113.7"])


async def test_tls_comes_behind_the_header(unused_port: Callable[[], int], tmp_path: Path) -> None:
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = self_signed(tmp_path, "gateway")
    served.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))
    trusting.check_hostname = False
    async with place_at(unused_port(), tls=served) as place:
        reader, writer = await asyncio.open_connection(HOST, place.port)
        writer.write(binary("203.0.113.7"))
        await writer.start_tls(trusting, server_hostname="gateway")
        await wait_until_async(lambda: place.hosts == ["203.0.113.7"])
        writer.write(HEAD)
        await wait_until_async(lambda: bool(place.began))
        writer.close()
        with suppress(OSError):
            await reader.read()
