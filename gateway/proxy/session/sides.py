"""The two faces a session shows to its connections: its client's and its own to the target broker.

Each is the receiver of a `Wire` (plain TCP) or asyncio's protocol (TLS).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

from gateway.proxy.session.context import Sessions
from gateway.proxy.session.listener import Listener
from gateway.proxy.session.naming_clients import place_of
from gateway.proxy.session.proxy_session import ProxySession
from gateway.transport.sockets import forget_unsent, peer_host, unacknowledged
from gateway.transport.wire import Wire
from protocol.wire import Buffer


class ClientSide(asyncio.Protocol):
    """The face to the client.

    Wires and uvloop look `data_received` up once: the session's own method is put there at birth, which saves a call
    per read.

    Args:
        host: the client's address; '': the connection's peer.
    """

    def __init__(
        self, context: Sessions, node_id: int | None, listener: Listener | None = None, host: str = ""
    ) -> None:
        self._context = context
        self._host = host
        self._session = ProxySession(context, node_id, listener)
        self._is_connected = False
        self.data_received = self._session.client_data  # type: ignore[method-assign]
        self.peeked = self._session.request_peeked

    @property
    def is_connected(self) -> bool:
        """The session has begun: it tells of its end itself."""
        return self._is_connected

    def accepted(self, sock: socket.socket) -> None:
        """A plain connection."""
        session = self._session
        host = self._host or peer_host(sock)
        readers = self._context.first_reads.of(host) if session.is_stranger else None
        wire = Wire(sock, self, self._context.wires, readers=readers)
        session.client_connected(wire, host)
        wire.start()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._is_connected = True
        encrypted = transport.get_extra_info("ssl_object")
        place = place_of(encrypted)
        if place is not None and self._session.node_id is None:
            self._session.node_id, self._session.listener = place
        peer = transport.get_extra_info("peername")
        host = self._host or (str(peer[0]) if peer else "")
        self._session.client_connected(TransportWire(transport), host)
        certificate = None if encrypted is None else encrypted.getpeercert(binary_form=True)
        if certificate:
            self._session.proved(certificate)

    def data_received(self, data: Buffer) -> None:
        """Replaced at birth."""

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._session.close_in_turn("client closed" if exc is None else f"client connection lost: {exc}")

    def pause_writing(self) -> None:
        self._session.pause_upstream(True)

    def resume_writing(self) -> None:
        self._session.pause_upstream(False)


class UpstreamSide(asyncio.Protocol):
    """The face to the session's own connection to the target broker."""

    def __init__(self, session: ProxySession) -> None:
        self._session = session
        self.data_received = session.upstream_data  # type: ignore[method-assign]
        self.peeked = session.response_peeked

    def connected(self, sock: socket.socket) -> None:
        """A plain connection."""
        wire = Wire(sock, self, self._session.context.wires, to_broker=True)
        wire.start()
        self._session.upstream_connected(wire)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._session.upstream_connected(TransportWire(transport))

    def data_received(self, data: Buffer) -> None:
        """Replaced at birth."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._session.close_in_turn("target broker closed" if exc is None else f"target broker lost: {exc}")

    def pause_writing(self) -> None:
        self._session.pause_client(True)

    def resume_writing(self) -> None:
        self._session.pause_client(False)


class TransportWire:
    """An asyncio transport that is written to like a `Wire`: what is given may change after the call."""

    __slots__ = ("_transport", "close", "pause_reading", "resume_reading")

    def __init__(self, transport: Any) -> None:
        self._transport: asyncio.Transport = transport  # asyncio says BaseTransport; stream sockets have a Transport
        self.close = transport.close
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    @property
    def waiting(self) -> bool:
        """Something waits until the socket takes more."""
        return self._transport.get_write_buffer_size() > 0

    @property
    def unsent(self) -> int:
        """Bytes that wait for it."""
        return self._transport.get_write_buffer_size()

    @property
    def untaken(self) -> int:
        """These, and what the peer has not received of those that have left."""
        unsent = self.unsent
        return unsent + unacknowledged(self._transport.get_extra_info("socket")) if unsent else 0

    def write(self, data: Buffer) -> None:
        """Write, from a copy unless `data` cannot change."""
        self._transport.write(data if isinstance(data, bytes) else bytes(data))

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        """Write several pieces as one."""
        self._transport.write(b"".join(pieces))

    def trusted(self) -> None:
        """It is read as before: the event loop has decrypted what it read."""

    def take_back(self) -> None:
        """Close at once. What has not come to the peer by now never will."""
        forget_unsent(self._transport.get_extra_info("socket"))
        self._transport.abort()
