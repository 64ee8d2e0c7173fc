"""The management listener of one gateway (`api/management.py`): from before the target is reached until the last client
is gone.

With workers the first one has it, as it has the API, and answers for all of them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import structlog

from gateway.api.management import Lately, ManagementApp
from gateway.config.api import Management
from gateway.runtime.api import BACKLOG, BoundedServer
from gateway.runtime.health import not_ready
from gateway.runtime.workers.siblings import Siblings
from gateway.telemetry.metrics import Metrics

_log = structlog.get_logger("lockgate")


class ManagementListener:
    """`siblings`: who answers for all processes of the gateway; before it serves.

    Args.

    closed_ports: of listeners that should be open; asked once it serves.
    stopping: whether the gateway has begun to stop.
    clock: seconds, monotonic.
    """

    def __init__(
        self,
        settings: Management,
        closed_ports: Callable[[], list[str]],
        stopping: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._closed_ports = closed_ports
        self._stopping = stopping
        self._clock = clock
        self.siblings: Siblings | None = None
        self._serves = False
        self._server: BoundedServer | None = None
        self._task: asyncio.Task[None] | None = None
        self._checks = Lately(self._look, clock)
        self._text = Lately(Metrics().text, clock)

    def start(self) -> None:
        """Answer: it is starting. Nothing happens without a port. Raises OSError when the port is taken."""
        settings = self._settings
        if not settings.port:
            return
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
        app = ManagementApp(self._not_alive, self._not_ready, self._metrics_text)
        self._server = BoundedServer(app, settings)
        self._task = asyncio.create_task(self._server.serve([listening]), name="management")
        _log.info("management", host=settings.host, port=settings.port)

    def serves(self) -> None:
        """Clients can connect."""
        self._serves = True
        if self.siblings is not None:
            self._text = Lately(self.siblings.text, self._clock)

    async def close(self) -> None:
        """Answer no more."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            self._server.ending.set()
            await self._task

    def _not_alive(self) -> str:
        """A gateway that starts or stops takes its time, and no restart makes it shorter."""
        if not self._serves or self._stopping():
            return ""
        return "not listening on all ports" if self._closed_ports() else ""

    async def _not_ready(self) -> str:
        found = {} if not self._serves or self._stopping() else await self._checks.get()
        return not_ready(found, serving=self._serves, stopping=self._stopping())

    async def _metrics_text(self) -> tuple[bytes, str]:
        return await self._text.get()

    async def _look(self) -> dict[str, str]:
        return {} if self.siblings is None else dict(await self.siblings.checks())
