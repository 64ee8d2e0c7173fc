"""Connections of clients that come by TLS, until their handshake is over.

Nothing is done for one that is silent: no TLS is begun before the client has sent something. Then it is asked whether
there may be one more handshake (`proxy/rules/handshakes.py`).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from gateway.proxy.session.sides import ClientSide
from gateway.transport.sockets import readable

if TYPE_CHECKING:
    from gateway.proxy.session.context import Sessions

HANDSHAKE_S: Final = 10.0
"""For a handshake, from the client's first byte on."""

_log = structlog.get_logger("lockgate.proxy")


class Securing:
    """Of all listeners.

    Args:
        refuse: close a connection that is not taken: the socket, its client, by which limit.
    """

    def __init__(self, sessions: Sessions, refuse: Callable[[socket.socket, str, str], None]) -> None:
        self._sessions = sessions
        self._refuse = refuse
        self._waiting: set[asyncio.Task[None]] = set()
        self._share = sessions.shares.of("TLS handshakes")

    def accepted(self, side: ClientSide, sock: socket.socket, host: str, tls: Callable[[], ssl.SSLContext]) -> None:
        """A connection that counts already. `tls`: the context of now."""
        work = self._sessions.loop.create_task(self._secure(side, sock, host, tls), name="TLS of a client")
        self._waiting.add(work)
        work.add_done_callback(self._waiting.discard)
        self._sessions.spawn(work)

    def close(self) -> None:
        """Wait for nobody any more."""
        for work in self._waiting:
            work.cancel()

    async def _secure(
        self, side: ClientSide, sock: socket.socket, host: str, tls: Callable[[], ssl.SSLContext]
    ) -> None:
        admission, handshakes = self._sessions.admission, self._sessions.handshakes
        try:
            if not await self._speaks(sock):
                return
            limit = handshakes.refusal(host) or await self._slice(host)
            if limit:
                admission.count(limit)
                self._refuse(sock, host, limit)
                return
            await self._shake_hands(side, sock, host, tls())
        finally:
            if not side.is_connected:
                sock.close()
                admission.left(host)

    async def _slice(self, host: str) -> str:
        """Until there is time in a turn of the event loop for one more; by which limit there never is, '': now."""
        handshakes, begins = self._sessions.handshakes, self._sessions.loop.create_future()

        def begin() -> None:
            if not begins.done():
                begins.set_result(None)

        if not handshakes.wait(host, begin):
            return "handshakes"
        self._sessions.shares.pace(self._share, handshakes.cost_s, handshakes.begin_next)
        await begins
        return ""

    async def _speaks(self, sock: socket.socket) -> bool:
        """False: the client has gone, or was silent for the time of a login."""
        try:
            async with asyncio.timeout(self._sessions.limits.login_timeout_s):
                await readable(self._sessions.loop, sock)
            return bool(sock.recv(1, socket.MSG_PEEK))
        except OSError:  # TimeoutError is one
            return False

    async def _shake_hands(self, side: ClientSide, sock: socket.socket, host: str, tls: ssl.SSLContext) -> None:
        """With the certificates of now: those of an earlier connection may have been renewed since."""
        sessions, begun = self._sessions, _Begun(sock)
        sessions.handshakes.begins(begun)
        try:
            await sessions.loop.connect_accepted_socket(
                lambda: side, sock, ssl=tls, ssl_handshake_timeout=min(HANDSHAKE_S, sessions.limits.login_timeout_s)
            )
        except OSError as error:  # ssl.SSLError is one
            _log.debug("TLS failed", client=host, error=str(error))
        finally:
            sessions.handshakes.ended(begun)


class _Begun:
    """A handshake that is under way. The transport has the socket, and notices its end itself."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def cancel(self) -> None:
        """See `Handshake`."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
