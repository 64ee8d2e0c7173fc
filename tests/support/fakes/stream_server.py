"""A server for tests that leaves nothing open: every connection is known from the moment it is accepted.

asyncio's own (Python 3.11) forgets one that is accepted and not yet handed over: when the loop ends then, the socket is
found unclosed by whatever test is running when the garbage is collected.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress

from gateway.transport.listening import Acceptor, listen

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class StreamServer:
    """Runs `serve` for each connection to `port`, behind TLS with `tls`. It is closed when `serve` ends."""

    def __init__(self, serve: Serve, tls: ssl.SSLContext | None = None) -> None:
        self._serve = serve
        self._tls = tls
        self._acceptor: Acceptor | None = None
        self._tasks: dict[asyncio.Task[None], socket.socket | asyncio.StreamWriter] = {}

    async def listen(self, port: int = 0) -> int:
        """On 127.0.0.1; returns the port. Raises OSError."""
        self._acceptor = await listen(asyncio.get_running_loop(), "127.0.0.1", port, 100, self._accepted)
        return self._acceptor.port

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._tasks)

    def drop(self) -> None:
        """Break every connection."""
        for task, open_ in self._tasks.items():
            if isinstance(open_, socket.socket):
                task.cancel()
            else:
                open_.transport.abort()

    async def close(self) -> None:
        """Refuse new connections, break the open ones, and wait for their ends."""
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None
        self.drop()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def _accepted(self, sock: socket.socket) -> None:
        task = asyncio.get_running_loop().create_task(self._greet(sock))
        self._tasks[task] = sock
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task).close()

    async def _greet(self, sock: socket.socket) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=self._tls)
        except OSError:  # of TLS, too
            return
        writer = self._tasks[task] = asyncio.StreamWriter(transport, protocol, reader, loop)
        with suppress(OSError, EOFError):  # whoever is at the other end has gone
            try:
                await self._serve(reader, writer)
            finally:
                writer.close()
                await writer.wait_closed()
