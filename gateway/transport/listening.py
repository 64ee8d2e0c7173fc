"""Plain TCP sockets of the data plane: listening, accepting and connecting, without transports.

A listener limits the open connections, in total and from one address (`Slots`), and the CPU time of TLS handshakes: the
cost of one is measured, since it depends on the key and the machine (`handshake_cost`).
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from gateway.transport.sockets import keep_alive

_TIMES: Final = 3
_STEPS: Final = 8


def handshake_cost(server: ssl.SSLContext, cpu: Callable[[], float] = time.thread_time) -> float:
    """CPU seconds of the server's side of a TLS handshake, the least of three.

    The client is simulated in memory, without a certificate, and trusts every server; if the server demands a
    certificate, the handshake is measured up to that point.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    return min(_cost(server, client, cpu) for _ in range(_TIMES))


def _cost(server: ssl.SSLContext, client: ssl.SSLContext, cpu: Callable[[], float]) -> float:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(to_client, to_server)
    answers = server.wrap_bio(to_server, to_client, server_side=True)
    spent = 0.0
    for _ in range(_STEPS):
        with suppress(ssl.SSLWantReadError):
            asks.do_handshake()
        before = cpu()
        over = _is_over(answers)
        spent += cpu() - before
        if over:
            break
    return spent


def _is_over(answers: ssl.SSLObject) -> bool:
    try:
        answers.do_handshake()
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:  # the client has no certificate
        return True
    return True


class Slots:
    """Limits connections. An IPv6 address counts as its /64: a host that has one address has all of them."""

    def __init__(self, total: int, per_address: int) -> None:
        self._total = total
        self._per_address = per_address
        self._taken: Counter[str] = Counter()

    def take(self, address: str) -> bool:
        """Take a slot. True if there was one; then it must be released."""
        key = _network(address)
        if self._taken.total() >= self._total or self._taken[key] >= self._per_address:
            return False
        self._taken[key] += 1
        return True

    def release(self, address: str) -> None:
        """End a `take` that was True."""
        key = _network(address)
        self._taken[key] -= 1
        if self._taken[key] <= 0:
            del self._taken[key]


def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found if found.version == 4 else found.ipv4_mapped)


_log = logging.getLogger(__name__)
_AT_ONCE: Final = 16  # connections accepted before other work gets its turn; each takes at least 0.1 ms
_NO_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_RETRY_S: Final = 1.0


class Acceptor:
    """Accepts connections on listening sockets, until closed. Each is non-blocking and has TCP_NODELAY and keepalive.

    Keepalive notices a vanished client after a minute, also while its request waits.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        loop: asyncio.AbstractEventLoop,
        accepted: Callable[[socket.socket], None],
        rests: Callable[[], bool] = lambda: False,
    ) -> None:
        self._rests = rests
        self._sockets = sockets
        self._loop = loop
        self._accepted = accepted
        self._retries: set[asyncio.TimerHandle] = set()
        for listening in sockets:
            loop.add_reader(listening.fileno(), self._accept, listening)

    @property
    def port(self) -> int:
        """The port of the first address."""
        bound: int = self._sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        """Stop listening."""
        for retry in self._retries:
            retry.cancel()
        for listening in self._sockets:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        self._sockets.clear()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            if self._rests():
                return
            try:
                connection, _ = listening.accept()
            except OSError as exc:
                if exc.errno in _NO_FILES:
                    self._wait(listening, exc)
                return  # no connection, or it is gone already
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(connection)
            self._accepted(connection)

    def _wait(self, listening: socket.socket, exc: OSError) -> None:
        """There are no resources for another connection: try again in a second."""
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
    rests: Callable[[], bool] = lambda: False,
) -> Acceptor:
    """Listen on all addresses of `host` ("" for every interface).

    Args:
        shared: other processes of this user may listen there, too, if they also set this (SO_REUSEPORT).
        rests: True when no more connections may be accepted in this turn of the loop.

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
    return Acceptor(sockets, loop, accepted, rests)


async def connect(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """A connection to the first address of `host` that accepts it, non-blocking and with TCP_NODELAY.

    Raises:
        OSError: it does not resolve, or none of its addresses accepts a connection.
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
