"""The two faces a session shows to asyncio: its client's connection and its own to the target broker."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.proxy.context import ProxyContext
from gateway.proxy.session import Session


class ClientSide(asyncio.Protocol):
    """The asyncio face of a client connection.

    uvloop looks `data_received` up once, before `connection_made`: the session's own method is put there at
    birth, which saves a call per read.
    """

    def __init__(self, context: ProxyContext, node_id: int | None) -> None:
        self._session = Session(context, node_id)
        self.data_received = self._session.client_data  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._session.client_connected(_as_transport(transport))

    def data_received(self, data: bytes) -> None:
        """Replaced at birth."""

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._session.close("client closed" if exc is None else f"client connection lost: {exc}")

    def pause_writing(self) -> None:
        self._session.pause_upstream(True)

    def resume_writing(self) -> None:
        self._session.pause_upstream(False)


class UpstreamSide(asyncio.Protocol):
    """The asyncio face of a session's own connection to the target broker."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.data_received = session.upstream_data  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._session.upstream_connected(_as_transport(transport))

    def data_received(self, data: bytes) -> None:
        """Replaced at birth."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._session.close("target broker closed" if exc is None else f"target broker lost: {exc}")

    def pause_writing(self) -> None:
        self._session.pause_client(True)

    def resume_writing(self) -> None:
        self._session.pause_client(False)


def _as_transport(transport: Any) -> asyncio.Transport:
    """asyncio types the argument as BaseTransport; stream sockets always give a Transport."""
    result: asyncio.Transport = transport
    return result
