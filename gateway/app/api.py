"""REST: the HTTP server of one gateway."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import uvicorn

from gateway.config import Api
from gateway.control.rest.front import Front

_TICK_S = 1.0  # the Date header counts seconds
GRACE_S = 3  # uvicorn takes whole seconds


class ApiServer:
    """Serves from `start` to `close`."""

    def __init__(self, front: Front, settings: Api) -> None:
        self._front = front
        self._settings = settings
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Raises OSError when the port is taken: uvicorn itself would exit."""
        listening = socket.create_server((self._settings.host, self._settings.port))
        config = uvicorn.Config(
            self._front, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=GRACE_S
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve([listening]), name="api")

    async def close(self) -> None:
        """Answer what is under way, at most `GRACE_S` seconds, and end."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            self._server.ending.set()
            await self._task


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the gateway has its own."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = asyncio.Event()

    async def main_loop(self) -> None:
        """uvicorn's own wakes up ten times a second to see whether it should end."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self.ending.wait()

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield
