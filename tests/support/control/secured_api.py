"""The REST API of a gateway as it is served: over real sockets, with all that stands before the control plane.

Behind it is a control plane without Kafka (`control_plane.py`). `raw` sends bytes that no HTTP library would send.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from gateway.api.access.audit import LOGGER, AuditTrail
from gateway.api.access.roles import RouteTable
from gateway.api.leader_forwarding import LeaderForwarding
from gateway.api.own import create_own_app
from gateway.config.api import Api
from gateway.console.timeline import Timeline
from gateway.devcluster import claim_ports, release_ports
from gateway.errors import NotFound
from gateway.fleet.peers.channel import Peers
from gateway.fleet.views import GatewayView
from gateway.runtime.api import ApiServer
from gateway.runtime.console import console_feed
from gateway.runtime.trends import TrendKeeper
from gateway.telemetry.metrics import Metrics
from tests.support.control.control_plane import Plane
from tests.support.control.shared_app import shared_app


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


class NoGateways:
    """A fleet that nobody is in."""

    def list(self) -> Sequence[GatewayView]:
        return ()

    def describe(self, name: str) -> GatewayView:
        raise NotFound(f"the fleet has no gateway '{name}'")

    async def forget(self, name: str) -> None:
        self.describe(name)

    def forgotten(self, name: str) -> Sequence[str]:
        return [self.describe(name).name]


class SecuredApi:
    """One gateway's API. `audit`: the lines of the audit trail, as text. `checks`: of /health and /ready."""

    def __init__(self, plane: Plane, settings: Api, *, name: str = "gw", peers: Peers | None = None) -> None:
        self.plane = plane
        self.settings = settings
        self.name = name
        self.checks: dict[str, str] = {}
        self.audit: list[str] = []
        self.leader = name
        self.peers = peers or Peers(name, "1", lambda: "secret", lambda *_: None)
        metrics = Metrics()
        metrics.control = plane.service.numbers
        self.trends = TrendKeeper(self.peers, lambda: self.forwarding)
        self.app = shared_app(lambda: plane.service, metrics, fleet=NoGateways, trends=lambda: self.trends.trends)
        self.timeline = Timeline(plane.store, lambda: plane.now_ms)
        self.feed = console_feed(lambda: self.forwarding, self.timeline, time.monotonic)
        own = create_own_app(plane.service.status, metrics, dict, self._found, self.app.described, self.feed)
        trail = AuditTrail(lambda: name, plane.store, lambda: plane.now_ms)
        table = RouteTable((*own.rows, *self.app.rows))
        self.forwarding = LeaderForwarding(own, self.peers, lambda: self.leader, trail, table, lambda: name)
        self._server = ApiServer(self.forwarding, settings)
        self._handler = _Lines(self.audit)

    async def _found(self) -> Mapping[str, str]:
        return self.checks

    @property
    def token(self) -> str:
        """The local admin's."""
        return Path(self.settings.token_file).read_text(encoding="ascii").strip()

    @property
    def connections(self) -> int:
        """How many there are now."""
        served = self._server._server
        return 0 if served is None else len(served.server_state.connections)

    @property
    def url(self) -> str:
        scheme = "http" if self.settings.tls is None else "https"
        return f"{scheme}://{self.settings.host}:{self.settings.port}"

    def client(self, token: str | None = None, **options: Any) -> httpx.AsyncClient:
        """`token`: by default the admin's; '' for none."""
        said = self.token if token is None else token
        headers = {"Authorization": f"Bearer {said}"} if said else {}
        return httpx.AsyncClient(base_url=self.url, headers=headers, trust_env=False, timeout=20.0, **options)

    async def start(self, *, leads: bool = True) -> None:
        logger = logging.getLogger(LOGGER)
        logger.addHandler(self._handler)
        self._level = logger.level
        logger.setLevel(logging.INFO)
        if leads:
            self.forwarding.lead(self.app)
        self._server.start()

    async def close(self) -> None:
        logger = logging.getLogger(LOGGER)
        logger.removeHandler(self._handler)
        logger.setLevel(self._level)
        await self.feed.close()
        await self._server.close()
        await self.peers.close()

    async def raw(self, request: bytes, *, tls: ssl.SSLContext | None = None) -> tuple[int, Mapping[str, str], str]:
        """Send bytes, and read one answer: status, headers, body."""
        reader, writer = await asyncio.open_connection(self.settings.host, self.settings.port, ssl=tls)
        try:
            writer.write(request)
            return await read_answer(reader)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, Mapping[str, str], str]:
    """One HTTP answer with Content-Length."""
    async with asyncio.timeout(20):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(head[0].split()[1]), headers, body.decode()


@asynccontextmanager
async def secured_api(folder: Path, *, leads: bool = True, **settings: Any) -> AsyncIterator[SecuredApi]:
    """An API on a free port, in force for the time of the block. `settings`: of the section `api`."""
    (port,) = claim_ports(1)
    plane = Plane()
    await plane.start()
    made = SecuredApi(plane, Api(**{"port": port, "token_file": str(folder / "api.token"), **settings}))
    try:
        await made.start(leads=leads)
        yield made
    finally:
        await made.close()
        await plane.close()
        release_ports([port])
