"""A control plane without Kafka behind a real HTTP port, for what talks to it from outside."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvicorn

from gateway.telemetry.metrics import Metrics
from tests.support.control.control_plane import Plane
from tests.support.control.shared_app import shared_app

T = TypeVar("T")


class ControlServer:
    """`plane` lives on a thread's event loop: touch it through `do` only, or read what does not change."""

    def __init__(self) -> None:
        self.plane: Plane
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="control server", daemon=True)
        self._thread.start()
        self._server: uvicorn.Server
        self._served: asyncio.Task[None]
        self.do(self._start)

    def do(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function on the server's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(30)

    def close(self) -> None:
        """Stop the server, the plane and the thread."""
        self.do(self._stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        self.plane = Plane()
        await self.plane.start()
        app = shared_app(lambda: self.plane.service, Metrics())
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        self._served = asyncio.create_task(self._server._serve([self._listening]), name="uvicorn")

    async def _stop(self) -> None:
        self._server.should_exit = True
        await self._served
        await self.plane.close()
        await self._loop.shutdown_default_executor()
