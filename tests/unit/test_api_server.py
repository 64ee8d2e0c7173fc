"""The HTTP server of a gateway, without what it serves."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from gateway.app import api as module
from gateway.config import Api
from gateway.devcluster import claim_ports, release_ports


async def test_a_request_that_is_never_answered_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, (port,) = asyncio.Event(), claim_ports(1)

    async def never(_scope: Any, _receive: Any, _send: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "GRACE_S", 1)
    server = module.ApiServer(cast("Any", never), Api(port=port))
    server.start()
    try:
        async with asyncio.timeout(10):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await asked.wait()
            await server.close()
            writer.close()
    finally:
        release_ports([port])
