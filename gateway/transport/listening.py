"""Plain TCP sockets of the data plane: listening, accepting and connecting, without transports."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

from gateway.transport.sockets import keep_alive

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 16  # connections accepted before others get their turn; each takes 0.1 ms and more
_NO_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_RETRY_S: Final = 1.0


class Acceptor:
    """Accepts connections on listening sockets, until closed. Each is non-blocking and has TCP_NODELAY and keepalive.

    A client that vanished is noticed by that after a minute, also one whose request waits.
    """

    def __init__(
        self, sockets: list[socket.socket], loop: asyncio.AbstractEventLoop, accepted: Callable[[socket.socket], None]
    ) -> None:
        self._sockets = sockets
        self._loop = loop
        self._accepted = accepted
        self._retries: set[asyncio.TimerHandle] = set()
        for listening in sockets:
            loop.add_reader(listening.fileno(), self._accept, listening)

    @property
    def port(self) -> int:
        """Of the first address."""
        bound: int = self._sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        """Listen no more."""
        for retry in self._retries:
            retry.cancel()
        for listening in self._sockets:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        self._sockets.clear()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = listening.accept()
            except OSError as exc:
                if exc.errno in _NO_FILES:
                    self._wait(listening, exc)
                return  # nobody there, or gone already
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(connection)
            self._accepted(connection)

    def _wait(self, listening: socket.socket, exc: OSError) -> None:
        """There is no room for one more: look again in a second."""
        _log.error("cannot accept a connection: %s", exc)
        self._loop.remove_reader(listening.fileno())

        def again() -> None:
            self._retries.discard(timer)
            self._loop.add_reader(listening.fileno(), self._accept, listening)

        timer = self._loop.call_later(_RETRY_S, again)
        self._retries.add(timer)


async def listen(
    loop: asyncio.AbstractEventLoop,
    host: str,
    port: int,
    backlog: int,
    accepted: Callable[[socket.socket], None],
    *,
    shared: bool = False,
) -> Acceptor:
    """Listen on all addresses of `host` ("" for every interface).

    Args:
        shared: other processes of this user may listen there, too, if they say so likewise (SO_REUSEPORT).

    Raises:
        OSError: it does not resolve, or the port is taken.
    """
    infos = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((info[0], info[4]) for info in infos):
            listening = socket.create_server(address, family=family, backlog=backlog, reuse_port=shared)
            listening.setblocking(False)
            sockets.append(listening)
    except BaseException:
        for listening in sockets:
            listening.close()
        raise
    return Acceptor(sockets, loop, accepted)


async def connect(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """A connection to the first address of `host` that takes one, non-blocking and with TCP_NODELAY.

    Raises:
        OSError: it does not resolve, or none of its addresses takes a connection.
    """
    error: OSError | None = None
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(connection, address)
        except OSError as exc:
            connection.close()
            error = exc
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise error or OSError(f"{host} has no address")
