"""One client connection and its own connection to the target broker, glued together.

Back-pressure goes both ways: who reads slowly has the other one read slowly.
"""

from __future__ import annotations

from typing import Protocol

from gateway.proxy.identity.token_login import TokenLogin
from gateway.proxy.session.from_broker import FromBroker
from gateway.proxy.session.from_client import FromClient
from gateway.proxy.session.listener import Listener
from gateway.proxy.session.session import Connected, SessionContext
from gateway.transport.wire import Wire


class ConnectingContext(SessionContext, Protocol):
    """What sessions share, and who connects them."""

    def session_opened(self, session: ProxySession) -> None:
        """A client connected."""

    def connect(self, session: ProxySession) -> None:
        """Connect it to its target broker."""


class ProxySession(FromClient, FromBroker):
    """A session with its connections. Both halves are bases, not parts, so that no byte pays for the division."""

    context: ConnectingContext

    def __init__(self, context: ConnectingContext, node_id: int | None, listener: Listener | None = None) -> None:
        super().__init__(context, node_id)
        self.listener = listener
        if listener is not None and listener.identity is not None:
            self.login = TokenLogin(self, listener.identity, context.loop)
            self._memory = context.unproven

    def proved(self, certificate: bytes) -> None:
        """The client's certificate, in DER, was verified."""
        try:
            self.certificate_principal = "" if self.listener is None else self.listener.principal(certificate)
        except ValueError as error:
            self.close(f"certificate of nobody: {error}")
            return
        if not self.context.asks_login:
            self.principal = self.certificate_principal
            self.client_known()

    @property
    def is_stranger(self) -> bool:
        """Its client has never logged in, and has to."""
        return self._memory is self.context.unproven

    def client_connected(self, wire: Connected, host: str) -> None:
        """The client is there, on `host`. It gets a connection to its target broker for the head of a request."""
        self.host = host
        self.client_known()
        self._client = wire
        self.context.session_opened(self)

    def _begin(self) -> None:
        self._begun = True
        self.context.connect(self)

    def upstream_connected(self, wire: Connected) -> None:
        """The target broker is connected: start with what the client has sent meanwhile."""
        if self.closed:
            wire.close()
            return
        self._upstream = wire
        self._begun = True
        if isinstance(wire, Wire) and isinstance(self._client, Wire):
            self._client.splice_to(wire, self._requests)
            wire.splice_to(self._client, self._responses)
        if self.login.connected():
            self.resume()

    def pause_upstream(self, paused: bool) -> None:
        """The client reads slowly: read its broker slowly, and no further request of its."""
        self.mute("client", paused)

    def pause_client(self, paused: bool) -> None:
        """The broker reads slowly: read the client slowly."""
        if paused:
            self._pause_reading("broker")
        else:
            self._resume_reading("broker")
