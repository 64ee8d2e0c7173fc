"""The gateway logs in on a session's connection to its broker, with a delegation token: SASL/SCRAM, `tokenauth=true`.

A broker takes nothing but SASL between the handshake and its last answer (KIP-368 says so of a login that is repeated,
too). So the login begins between two requests, and `_Alone` stands before the broker meanwhile: what handlers and
the client's stream send waits there, and leaves in its order afterwards. Answers of requests before are still to come:
a broker answers in order, so the first answer to the login is behind them, and nothing is in flight from then on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from gateway.kafka.access.delegation_tokens import Token
from gateway.kafka.connection.config import TOKEN_MECHANISM
from gateway.kafka.connection.errors import AuthenticationFailed
from gateway.kafka.connection.sasl import Scram
from gateway.proxy.session.exchange import Exchange, ExchangeSession
from protocol.codec import decode_response, encode_body
from protocol.errors import error_name
from protocol.header import encode_request_header, response_body_offset
from protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from protocol.wire import Buffer

_VERSION: Final = 1  # of both: the first with whole frames, and with the session's lifetime
_ids = itertools.count(1 << 30)


class Broker(Protocol):
    """The connection to it; see `session.Connected`."""

    @property
    def waiting(self) -> bool: ...  # noqa: D102

    def write(self, data: Buffer) -> None: ...  # noqa: D102

    def writelines(self, pieces: Sequence[Buffer]) -> None: ...  # noqa: D102

    def pause_reading(self) -> None: ...  # noqa: D102

    def resume_reading(self) -> None: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102

    def take_back(self) -> None: ...  # noqa: D102


class LoggedIn(ExchangeSession, Protocol):
    """The session; see `session.Session`."""

    closed: bool

    @property
    def at_boundary(self) -> bool: ...  # noqa: D102

    def put_before_broker(self, instead: Any) -> Any: ...  # noqa: D102

    def expect(self, exchange: Exchange, *, first: bool) -> None: ...  # noqa: D102

    def pause_for_login(self, paused: bool) -> None: ...  # noqa: D102


class _Alone:
    """In the place of the broker's connection: passes on the rest of a request that has begun, and keeps the others."""

    def __init__(self, session: LoggedIn, begin: Callable[[], None]) -> None:
        self._session = session
        self._begin = begin
        self._begun = False
        self._kept: list[bytes] = []
        self.broker: Broker = session.put_before_broker(self)
        self.pause_reading = self.broker.pause_reading
        self.resume_reading = self.broker.resume_reading
        self.close = self.broker.close
        self.take_back = self.broker.take_back

    def look(self) -> None:
        """Begin, if the broker has been sent whole requests."""
        if not self._begun and self._session.at_boundary and not self._session.closed:
            self._begun = True
            self._begin()

    @property
    def waiting(self) -> bool:
        return bool(self._kept) or self.broker.waiting

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        if self._begun:
            self._kept.append(b"".join(pieces))
        else:
            self.broker.writelines(pieces)
            self.look()

    def end(self) -> None:
        """What was kept leaves."""
        self._session.put_before_broker(self.broker)
        if self._kept:
            self.broker.writelines(self._kept)


class UpstreamLogin:
    """One login; `done` gets the session's lifetime in milliseconds (0: none), `failed` why the broker refuses."""

    def __init__(
        self, session: LoggedIn, token: Token, done: Callable[[int], None], failed: Callable[[str], None]
    ) -> None:
        self._session = session
        self._done = done
        self._failed = failed
        self._scram = Scram(TOKEN_MECHANISM, token.token_id, token.password, is_token=True)
        session.pause_for_login(True)
        self._alone = _Alone(session, self._handshake)
        self._alone.look()

    def _handshake(self) -> None:
        self._ask(SaslHandshakeRequest(mechanism=TOKEN_MECHANISM), self._shaken, first=False)

    def _shaken(self, answer: Any) -> None:
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "none"
            self._failed(f"the target's listener needs {TOKEN_MECHANISM} for delegation tokens, it has {offered}")
            return
        self._say(self._scram.first())

    def _say(self, message: bytes) -> None:
        self._ask(SaslAuthenticateRequest(auth_bytes=message), self._said, first=True)

    def _said(self, answer: Any) -> None:
        if answer.error_code:
            self._failed(answer.error_message or error_name(answer.error_code))
            return
        try:
            reply = self._scram.respond(bytes(answer.auth_bytes))
        except AuthenticationFailed as error:
            self._failed(str(error))
            return
        if reply is not None:
            self._say(reply)
            return
        self._alone.end()
        self._session.pause_for_login(False)
        self._done(answer.session_lifetime_ms)

    def _ask(self, message: Any, answered: Callable[[Any], None], *, first: bool) -> None:
        """`first`: nothing is in flight, so what waits in `_Alone` is expected behind this."""
        key = int(message.API_KEY)
        exchange = Exchange(self._session, key, _VERSION, -next(_ids), 0.0)
        exchange.internal = True

        def transform(frame: memoryview) -> None:
            answered(decode_response(key, _VERSION, frame[response_body_offset(key, _VERSION, frame) :]))

        exchange.transform = transform
        body = encode_body(message, _VERSION)
        header = encode_request_header(key, _VERSION, exchange.correlation_id, "lockgate")
        self._session.expect(exchange, first=first)
        self._alone.broker.writelines(((len(header) + len(body)).to_bytes(4, "big"), header, body))
