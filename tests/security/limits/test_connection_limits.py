"""Clients that only connect: how many there may be, and that nothing is done for them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.proxy.rules.limits import Limits
from gateway.proxy.session.context import Sessions
from protocol.apis import ApiKey
from tests.support.gateways.listening import is_closed, listening
from tests.support.identities.self_signed import self_signed
from tests.support.proxy.limits import limits_with
from tests.support.waiting import wait_until_async

Opened = tuple[Sessions, Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]]


@asynccontextmanager
async def listener(port: int, tls: ssl.SSLContext | None = None, limits: Limits | None = None) -> AsyncIterator[Opened]:
    """The bootstrap port of a gateway, and how to connect to it."""
    async with listening(port, tls=tls, limits=limits) as sessions:
        yield sessions, lambda: asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize(("limit", "reason"), [("connections", "connections"), ("connections_per_address", "address")])
async def test_one_more_than_may_be_is_closed(unused_port: Callable[[], int], limit: str, reason: str) -> None:
    async with listener(unused_port(), limits=limits_with(**{limit: 2})) as (sessions, connect):
        kept = [await connect() for _ in range(2)]
        reader, writer = await connect()
        assert await is_closed(reader)
        assert sessions.admission.refused == {reason: 1}
        assert len(sessions.open) == 2
        kept[0][1].close()
        await wait_until_async(lambda: len(sessions.open) == 1)
        kept.append(await connect())
        await wait_until_async(lambda: len(sessions.open) == 2)
        for _, each in (*kept, (reader, writer)):
            each.close()


async def test_too_many_at_once_are_closed(unused_port: Callable[[], int]) -> None:
    async with listener(unused_port(), limits=limits_with(connections_per_second=1)) as (sessions, connect):
        found = [await connect() for _ in range(4)]
        closed = await asyncio.gather(*(is_closed(reader) for reader, _ in found[2:]))
        assert closed == [True, True]
        assert sessions.admission.refused["rate"] >= 1
        for _, writer in found:
            writer.close()


async def test_nothing_is_done_for_who_says_nothing(unused_port: Callable[[], int]) -> None:
    """Each connection to a broker takes something of it, too."""
    async with listener(unused_port()) as (sessions, connect):
        asked: list[Any] = []
        sessions.connect = asked.append
        _, writer = await connect()
        await wait_until_async(lambda: bool(sessions.open))
        assert asked == []
        head = struct.pack(">ihhih", 30, ApiKey.API_VERSIONS, 3, 1, -1)
        writer.write(head[:13])
        (session,) = sessions.open
        await wait_until_async(lambda: bool(cast("Any", session)._backlog))
        assert asked == []
        writer.write(head[13:])
        await wait_until_async(lambda: bool(asked))
        assert asked == list(sessions.open)
        writer.close()


async def test_a_client_that_vanished_is_noticed(unused_port: Callable[[], int]) -> None:
    """Its machine is gone, and nothing is sent to it: TCP asks."""
    async with listener(unused_port()) as (sessions, connect):
        _, writer = await connect()
        await wait_until_async(lambda: bool(sessions.open))
        (session,) = sessions.open
        accepted = cast("Any", session)._client._socket
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 60
        writer.close()


async def test_a_connection_counts_before_its_tls_handshake(unused_port: Callable[[], int], tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path, "gateway"))
    async with listener(unused_port(), context, limits_with(connections=1, login_timeout_s=0.2)) as (sessions, connect):
        _, silent = await connect()
        reader, writer = await connect()
        assert await is_closed(reader)
        assert sessions.admission.refused == {"connections": 1}
        await wait_until_async(lambda: not sessions.admission.refusal("127.0.0.1"))  # the handshake that never comes
        silent.close()
        writer.close()
