"""SaslHandshake: v1 and SaslAuthenticate: v0-2.

Behaviour: relayed to the target untouched, so that the target itself authenticates the client. The handshake's
mechanism and the first client message are read to tell clients apart by principal; nothing is stored of secrets.
SaslHandshake v0 (raw tokens without headers) is not advertised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis import ApiKey
from protocol.codec import decode_request
from protocol.sasl import principal_of

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session


class SaslHandler:
    """See the module's docstring. Serves both keys."""

    def __init__(self, context: ProxyContext) -> None:
        self._context = context

    def wants(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = decode_request(exchange.api_key, exchange.api_version, exchange.body)
        if exchange.api_key == ApiKey.SASL_HANDSHAKE:
            session.sasl_mechanism = request.mechanism
        elif session.sasl_mechanism and not session.principal:
            session.principal = principal_of(session.sasl_mechanism, bytes(request.auth_bytes)) or ""
        exchange.forward()
