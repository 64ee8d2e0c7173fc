"""The bootstrap port of a gateway, and nothing behind it."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.proxy.rules.limits import Limits
from gateway.proxy.rules.proxy_protocol import Proxies
from gateway.proxy.session.context import Sessions
from gateway.proxy.session.listener import Listener
from gateway.proxy.session.listeners import Listeners
from tests.support.proxy.conversation import View
from tests.support.proxy.limits import limits_with


@asynccontextmanager
async def listening(
    port: int, *, proxies: Sequence[str] = (), tls: ssl.SSLContext | None = None, limits: Limits | None = None
) -> AsyncIterator[Sessions]:
    """The sessions of whoever connects. `proxies`: see `proxy_protocol_from`. `limits`: the defaults."""
    loop = asyncio.get_running_loop()
    sessions = Sessions(
        routing=RoutingTable(),
        clock=loop.time,
        loop=loop,
        max_request_bytes=1 << 20,
        limits=limits or limits_with(),
    )
    listener = Listener(
        host="127.0.0.1",
        advertised_host="",
        bootstrap_port=port,
        port_of=lambda node: 0,
        proxies=Proxies(proxies) if proxies else None,
        tls=None if tls is None else lambda: tls,
    )
    target = cast("Any", SimpleNamespace(view=View(), available=True, config=SimpleNamespace(uses_sasl=True)))
    listeners = Listeners(
        sessions, target=target, listeners=[listener], target_tls=None, idle_timeout_s=600, rng=random.Random(1)
    )
    await listeners.start()
    try:
        yield sessions
    finally:
        await listeners.close(0)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether the gateway closes the connection, without a word, within ten seconds."""
    async with asyncio.timeout(10):
        try:
            return await reader.read(1) == b""
        except ConnectionError:
            return True
