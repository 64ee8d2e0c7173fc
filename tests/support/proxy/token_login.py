"""A session of a listener with `identity: token`, and the broker's side of what the gateway says to it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.kafka.access.delegation_tokens import Token, TokenRefused
from gateway.proxy.identity.identity import Bearer, TokenIdentity
from gateway.proxy.session.listener import Listener
from protocol.apis import ApiKey
from protocol.codec import decode_request, encode_response
from protocol.header import peek_request_header
from protocol.messages import SaslAuthenticateResponse, SaslHandshakeResponse
from tests.support.proxy.conversation import Conversation

SASL = (int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE))
_SALT, _ITERATIONS = b"salt", 4096


class FakeTokens:
    """Makes a token for everybody who is not in `refused`."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        self.asked: list[str] = []
        self.forgotten: list[Token] = []

    async def get(self, owner: str) -> Token:
        self.asked.append(owner)
        if owner in self.refused:
            raise TokenRefused(self.refused[owner])
        return Token(f"token-of-{owner}", b"secret", 3600.0)

    def forget(self, _owner: str, token: Token) -> None:
        self.forgotten.append(token)


class TokenTalk:
    """A conversation at such a listener. `certificate`: who the client is by it."""

    def __init__(self, certificate: str = "", bearer: Callable[[str], Awaitable[Bearer]] | None = None) -> None:
        self.tokens = FakeTokens()
        listener = Listener(
            host="h",
            advertised_host="h",
            bootstrap_port=1,
            port_of=lambda node: node,
            identity=TokenIdentity(self.tokens, bearer, lambda: 0.5),
        )
        self.talk = Conversation(asks_login=True, listener=listener, certificate=certificate)
        self.session = self.talk.session
        self.password = Token("", b"secret", 0.0).password
        self._first = ""

    async def broker_lets_in(self, lifetime_ms: int = 0, *, knows: bool = True) -> str:
        """Play the broker's side of a login to its end. Returns the client's first message.

        `knows`: it knows the token.
        """
        await self.talk.run_pending()
        self._answer(self._next(), SaslHandshakeResponse(error_code=0, mechanisms=["SCRAM-SHA-256"]))
        frame = self._next()
        first = self._said(frame)
        nonce = first.split("r=")[1].split(",")[0] + "server"
        server_first = f"r={nonce},s={base64.b64encode(_SALT).decode()},i={_ITERATIONS}"
        self._answer(frame, _authenticated(server_first.encode()))
        frame = self._next()
        final = self._said(frame)
        message = f"{first[3:]},{server_first},{final.rpartition(',p=')[0]}".encode()
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), _SALT, _ITERATIONS)
        key = hmac.digest(salted, b"Server Key" if knows else b"nothing", "sha256")
        signature = base64.b64encode(hmac.digest(key, message, "sha256"))
        self._answer(frame, _authenticated(b"v=" + signature, lifetime_ms))
        return first

    def _next(self) -> bytes:
        (frame,) = self.talk.broker.frames()
        header = peek_request_header(memoryview(frame))
        assert header.api_key in SASL, header
        assert header.client_id == "lockgate"
        return frame

    def _said(self, frame: bytes) -> str:
        header = peek_request_header(memoryview(frame))
        request = decode_request(header.api_key, header.api_version, memoryview(frame)[header.body_offset :])
        return bytes(request.auth_bytes).decode()

    def _answer(self, frame: bytes, message: Any) -> None:
        header = peek_request_header(memoryview(frame))
        answer = encode_response(message, header.api_key, header.api_version, header.correlation_id)
        self.session.upstream_data(answer)


def _authenticated(message: bytes, lifetime_ms: int = 0) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=0, error_message=None, auth_bytes=message, session_lifetime_ms=lifetime_ms
    )
