"""Connections that come by a load balancer which tells their clients' addresses (`proxy/rules/proxy_protocol.py`).

The header is taken off the socket before anything else looks at it, byte for byte: what follows, a TLS greeting or a
request, stays in the socket for whoever the connection is for. Until then the connection counts among all, and has
`HEADER_S` seconds; from then on its client's address counts.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from gateway.proxy.rules.admission import Admission
from gateway.proxy.rules.proxy_protocol import MOST_BYTES, BadHeaderError, Proxies, client_of, header_size
from gateway.transport.sockets import readable

HEADER_S: Final = 5.0
"""For the whole header, from the connection on. The protocol asks for three at least: a TCP retransmission."""

_log = structlog.get_logger("lockgate.proxy")


class BehindProxy:
    """Connections whose clients are not named yet.

    Args:
        refuse: close a connection that is not taken: the socket, its peer, by which limit.
        timeout_s: the time of a login, which bounds the header's, too.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        admission: Admission,
        refuse: Callable[[socket.socket, str, str], None],
        timeout_s: float,
    ) -> None:
        self._loop = loop
        self._admission = admission
        self._refuse = refuse
        self._timeout_s = min(HEADER_S, timeout_s)
        self._waiting: set[asyncio.Task[None]] = set()

    def accepted(
        self, sock: socket.socket, peer: str, proxies: Proxies, then: Callable[[socket.socket, str], None]
    ) -> None:
        """A new connection from `peer`. `then` gets it with its client's address, when that is known."""
        if not proxies.lists(peer):
            self._admission.count("proxy")
            self._refuse(sock, peer, "proxy")
            return
        limit = self._admission.waits()
        if limit:
            self._refuse(sock, peer, limit)
            return
        work = self._loop.create_task(self._take_header(sock, peer, then), name="PROXY header of a client")
        self._waiting.add(work)
        work.add_done_callback(partial(self._ended, sock))

    def close(self) -> None:
        """Wait for nobody any more."""
        for work in self._waiting:
            work.cancel()

    def _ended(self, sock: socket.socket, work: asyncio.Task[None]) -> None:
        self._waiting.discard(work)
        if work.cancelled():
            sock.close()

    async def _take_header(self, sock: socket.socket, peer: str, then: Callable[[socket.socket, str], None]) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                header = await read_header(self._loop, sock)
            client = client_of(header) or peer
        except (OSError, BadHeaderError) as error:  # TimeoutError is an OSError
            self._admission.named()
            self._admission.count("header")
            _log.debug("no client is named", proxy=peer, error=str(error) or "the PROXY header did not come in time")
            self._refuse(sock, peer, "header")
        else:
            self._admission.named()
            then(sock, client)


async def read_header(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> bytes:
    """The whole header, which is taken off the non-blocking socket; no byte behind it is.

    Raises:
        BadHeaderError: what comes is none, or ends too soon.
        OSError: the connection is lost.
    """
    header, size = b"", 0
    while not size or len(header) < size:
        try:
            seen = sock.recv(MOST_BYTES, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            await readable(loop, sock)
            continue
        if not seen:
            raise BadHeaderError("the connection ended before its PROXY header did")
        size = header_size(header + seen)
        header += sock.recv(min(len(seen), size - len(header)) if size else len(seen))
    return header
