"""REST's connections with TLS: accepted here, so that each begins with the certificates of its moment.

A server of asyncio's keeps the context that it was made with, so renewed files would wait for a restart. It also lets
any number of strangers stand in a handshake at once; here those count as connections do.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import structlog

from gateway.proxy.rules.admission import address_of
from gateway.transport.listening import Acceptor
from gateway.transport.sockets import peer_host

_log = structlog.get_logger("lockgate.rest")


class TlsAcceptor:
    """Accepts on a listening socket until closed.

    Args:
        admits: whether one more connection of an address may come now.
        tls: the context of now.
        handshake_s: for a handshake; then the connection is closed.
        most: handshakes at a time; for one more the oldest is closed. most_of_one: the same of one address.
    """

    def __init__(
        self,
        listening: socket.socket,
        loop: asyncio.AbstractEventLoop,
        connection: Callable[[], asyncio.Protocol],
        *,
        admits: Callable[[str], bool],
        tls: Callable[[], ssl.SSLContext],
        handshake_s: float,
        most: int,
        most_of_one: int,
    ) -> None:
        self._loop = loop
        self._connection = connection
        self._admits = admits
        self._tls = tls
        self._handshake_s = handshake_s
        self._most, self._most_of_one = most, most_of_one
        self._handshakes: dict[asyncio.Task[None], str] = {}  # and from where
        listening.setblocking(False)
        self._acceptor = Acceptor([listening], loop, self._accepted)

    def close(self) -> None:
        """Accept no more; who is in a handshake is closed."""
        self._acceptor.close()
        for work in self._handshakes:
            work.cancel()

    async def wait_closed(self) -> None:
        """As a server of asyncio's, for uvicorn."""
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _accepted(self, sock: socket.socket) -> None:
        address = address_of(peer_host(sock))
        if not self._admits(address):
            sock.close()
            return
        of_one = [work for work, each in self._handshakes.items() if each == address]
        full = of_one if len(of_one) >= self._most_of_one else list(self._handshakes)
        if len(of_one) >= self._most_of_one or len(full) >= self._most:
            full[0].cancel()  # who stands in one for longest: the others may come to its end
            self._handshakes.pop(full[0])
        work = self._loop.create_task(self._secure(sock), name="TLS of REST")
        self._handshakes[work] = address

        def ended(done: asyncio.Task[None]) -> None:
            self._handshakes.pop(done, None)
            if done.cancelled():
                sock.close()

        work.add_done_callback(ended)

    async def _secure(self, sock: socket.socket) -> None:
        host = peer_host(sock)
        try:
            await self._loop.connect_accepted_socket(
                self._connection, sock, ssl=self._tls(), ssl_handshake_timeout=self._handshake_s
            )
        except (OSError, TimeoutError) as exc:  # ssl.SSLError is an OSError
            sock.close()
            _log.debug("TLS failed", client=host, error=str(exc))
