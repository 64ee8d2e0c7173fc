"""The HTTP server of one gateway, without what it serves: what no test over the wire can wait for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from gateway.api.access.audit import AuditTrail
from gateway.api.access.roles import Role, Route, RouteTable
from gateway.config.api import Api
from gateway.devcluster import claim_ports, release_ports
from gateway.runtime import api as module


def test_a_client_gives_up_an_idle_connection_before_the_gateway_does() -> None:
    theirs = httpx.Limits().keepalive_expiry
    assert theirs is not None
    assert theirs < module.IDLE_S


class Never:
    """An application that never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.audit = AuditTrail(str, None, lambda: 0)
        self.table = RouteTable((Route("GET", "/health", Role.ANYONE),))

    async def __call__(self, _scope: Any, _receive: Any, _send: Any) -> None:
        self.asked.set()
        await asyncio.Event().wait()


async def test_a_request_that_is_never_answered_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    never, (port,) = Never(), claim_ports(1)
    monkeypatch.setattr(module, "GRACE_S", 1)
    server = module.ApiServer(cast("Any", never), Api(port=port, token_file=str(tmp_path / "token")))
    server.start()
    try:
        async with asyncio.timeout(10):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await never.asked.wait()
            await server.close()
            writer.close()
    finally:
        release_ports([port])
