"""SaslHandshake: v1 and SaslAuthenticate: v0-2.

Behaviour: at a listener with `identity: token` the gateway answers them itself (`proxy/identity/token_login.py`).
Elsewhere: relayed to the target untouched, so that the target itself authenticates the client. The handshake's
mechanism and the first client message are read to tell clients apart by principal, which counts once the target has
accepted the login (`session/login.py`); nothing is stored of secrets.
SaslHandshake v0 (raw tokens without headers) is not advertised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis import ApiKey
from protocol.codec import decode_response
from protocol.framing import framed
from protocol.header import response_body_offset

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session


class SaslHandler:
    """See the module's docstring. Serves both keys."""

    def intercepts(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        if session.login.sasl(exchange):
            return
        request = exchange.request()
        if exchange.api_key == ApiKey.SASL_HANDSHAKE:
            session.login.begins(request.mechanism)
            exchange.forward()
            return
        session.login.says(bytes(request.auth_bytes))

        def answered(frame: memoryview) -> bytes:
            at = response_body_offset(exchange.api_key, exchange.api_version, frame)
            answer = decode_response(exchange.api_key, exchange.api_version, frame[at:])
            session.login.answered(answer.error_code, answer.session_lifetime_ms or 0)
            return framed(frame)

        exchange.forward(answered)
