"""The login of a client at a listener with `identity: token`: who it is, the gateway finds out.

By its certificate: it was verified in the TLS handshake, so the gateway logs in at the broker before it looks at a
single request. By OAUTHBEARER (RFC 7628): the client's requests of a login are answered here (ApiVersions alone goes to
the broker), and the gateway logs in at the broker before it says yes. Nothing else is taken before that.

The broker ends what a login allows with the token's time. The gateway logs in again before, with the token of then;
clients notice nothing. A bearer's own token ends, too: the client is told when (KIP-368), logs in again with another
one, which concerns the gateway alone, or its connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from gateway.kafka.access.delegation_tokens import Token, TokenRefused
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.proxy.identity.identity import Bearer, BearerUnchecked, InvalidBearer, TokenIdentity
from gateway.proxy.identity.upstream_login import LoggedIn, UpstreamLogin
from gateway.proxy.rules.bearer_message import bearer_of
from gateway.proxy.session.exchange import Exchange
from gateway.proxy.session.login import OF_A_LOGIN, LoginContext, require_small
from gateway.proxy.session.streams import StreamError
from protocol.apis import ApiKey
from protocol.codec import encode_body
from protocol.errors import ErrorCode
from protocol.messages import SaslAuthenticateResponse, SaslHandshakeResponse

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task, TimerHandle

OAUTHBEARER: Final = "OAUTHBEARER"
_AGAIN_S: Final = 5.0  # after a login that could not be repeated, while the one before holds
_log = structlog.get_logger("lockgate.identity")


class TokenContext(LoginContext, Protocol):
    """What sessions share."""

    def spawn(self, work: Task[None]) -> None:
        """Keep a reference to a background task until it ends."""


class TokenSession(LoggedIn, Protocol):
    """The session that logs in."""

    @property
    def context(self) -> TokenContext: ...  # noqa: D102

    host: str
    principal: str
    certificate_principal: str

    def stall(self) -> None: ...  # noqa: D102

    def resume(self) -> None: ...  # noqa: D102

    def again(self, action: Callable[[], None]) -> None: ...  # noqa: D102

    def login_changed(self) -> None: ...  # noqa: D102

    def drain(self, reason: str) -> None: ...  # noqa: D102

    def close(self, reason: str) -> None: ...  # noqa: D102


class TokenLogin:
    """The login of one session; implements `SessionLogin`."""

    __slots__ = (
        "_bearer_ends",
        "_handshaken",
        "_identity",
        "_loop",
        "_repeated",
        "_session",
        "_upstream_ends_at",
        "accepted",
        "since",
    )

    def __init__(self, session: TokenSession, identity: TokenIdentity, loop: AbstractEventLoop) -> None:
        self._session = session
        self._identity = identity
        self._loop = loop
        self.accepted = False
        self.since: float | None = session.context.clock()
        self._handshaken = False
        self._bearer_ends: TimerHandle | None = None
        self._repeated: TimerHandle | None = None
        self._upstream_ends_at = 0.0

    # -- SessionLogin ------------------------------------------------------------------------------------------------

    def connected(self) -> bool:
        """A client with a certificate has said who it is already."""
        if self._identity.bearer is not None:
            return True
        name = self._session.certificate_principal
        self._spawn(self._log_in(name, self._let_in_by_certificate, self._refused_certificate))
        return False

    def takes(self, api_key: int, size: int) -> bool:
        """Raises StreamError for what is no part of a login."""
        if api_key not in OF_A_LOGIN:
            raise StreamError("a request before a login")
        require_small(size, self._session.context.limits)
        return True

    def sasl(self, exchange: Exchange) -> bool:
        """Answer it: never is one passed on, since it would log the client in as somebody else."""
        if exchange.api_key == ApiKey.SASL_HANDSHAKE:
            self._handshake(exchange)
        elif self._handshaken:
            self._handshaken = False
            message = bytes(exchange.request().auth_bytes)
            self._session.stall()
            self._spawn(self._authenticate(exchange, message))
        else:
            self._refuse(exchange, ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate without a SaslHandshake")
        return True

    def begins(self, mechanism: str) -> None:
        """Never called: `sasl` answers."""

    def says(self, message: bytes) -> None:
        """Never called: `sasl` answers."""

    def answered(self, error_code: int, lifetime_ms: int) -> None:
        """Never called: `sasl` answers."""

    def closed(self) -> None:
        """No timer outlives the session."""
        for timer in (self._bearer_ends, self._repeated):
            if timer is not None:
                timer.cancel()

    # -- a certificate -----------------------------------------------------------------------------------------------

    def _let_in_by_certificate(self) -> None:
        self._accept(self._session.certificate_principal)
        self._session.resume()

    def _refused_certificate(self, reason: str) -> None:
        self._session.close(f"authentication failed: {reason}")

    # -- OAUTHBEARER -------------------------------------------------------------------------------------------------

    def _handshake(self, exchange: Exchange) -> None:
        offered = [] if self._identity.bearer is None else [OAUTHBEARER]
        if not offered:
            code = ErrorCode.ILLEGAL_SASL_STATE  # as a broker answers where there is no SASL
        elif exchange.request().mechanism != OAUTHBEARER:
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        else:
            code, self._handshaken = ErrorCode.NONE, True
        answer = SaslHandshakeResponse(error_code=int(code), mechanisms=offered)
        exchange.reply(encode_body(answer, exchange.api_version))

    async def _authenticate(self, exchange: Exchange, message: bytes) -> None:
        session, check = self._session, self._identity.bearer
        try:
            if check is None:
                raise InvalidBearer("there is no SASL here")
            token, asked = bearer_of(message)
            bearer = await check(token)
            if asked not in ("", bearer.principal):
                raise InvalidBearer(f"the token of {bearer.principal} lets nobody in as {asked}")
        except (InvalidBearer, ValueError) as error:
            _log.info("a bearer's token is refused", client=session.host, reason=str(error))
            self._refuse(exchange, ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
            return
        except BearerUnchecked as error:
            _log.warning("a bearer's token cannot be checked", client=session.host, reason=str(error))
            session.close(f"authentication failed: {error}")
            return
        if not self.accepted:
            await self._log_in(
                bearer.principal,
                lambda: session.again(lambda: self._let_in_by_token(exchange, bearer)),
                lambda reason: self._refuse(exchange, ErrorCode.SASL_AUTHENTICATION_FAILED, reason),
            )
        elif bearer.principal != session.principal:
            why = f"the principal of a connection cannot change from {session.principal} to {bearer.principal}"
            self._refuse(exchange, ErrorCode.SASL_AUTHENTICATION_FAILED, why)
        else:
            session.again(lambda: self._let_in_by_token(exchange, bearer))

    def _let_in_by_token(self, exchange: Exchange, bearer: Bearer) -> None:
        if not self.accepted:
            self._accept(bearer.principal)
        if self._bearer_ends is not None:
            self._bearer_ends.cancel()
        self._bearer_ends = self._loop.call_later(
            bearer.left_s, self._session.close, "login over: the token has expired"
        )
        self._answer(exchange, ErrorCode.NONE, None, int(bearer.left_s * 1000))

    def _refuse(self, exchange: Exchange, code: ErrorCode, why: str) -> None:
        if not self._session.closed:
            self._session.stall()
            self._answer(exchange, code, why, 0)
            self._session.drain(f"authentication failed: {why}")

    def _answer(self, exchange: Exchange, code: ErrorCode, why: str | None, lifetime_ms: int) -> None:
        answer = SaslAuthenticateResponse(
            error_code=int(code), error_message=why, auth_bytes=b"", session_lifetime_ms=lifetime_ms
        )
        exchange.reply(encode_body(answer, exchange.api_version))

    # -- the target --------------------------------------------------------------------------------------------------

    def _accept(self, principal: str) -> None:
        self.accepted = True
        self.since = None
        self._session.principal = principal
        self._session.login_changed()

    async def _log_in(self, owner: str, let_in: Callable[[], None], refused: Callable[[str], None]) -> None:
        """Have the broker take the connection for the owner's. `refused` is for what no client can mend by retrying."""
        session = self._session
        try:
            token = await self._identity.tokens.get(owner)
        except TokenRefused as error:
            refused(str(error))
            return
        except ClusterUnavailable as error:
            session.close(f"target broker unreachable: {error}")
            return
        if session.closed:
            return

        def done(lifetime_ms: int) -> None:
            self._plan(owner, lifetime_ms)
            let_in()

        UpstreamLogin(session, token, done, lambda reason: self._token_failed(owner, token, reason))

    def _token_failed(self, owner: str, token: Token, reason: str) -> None:
        """The client may come again: there will be another token."""
        self._identity.tokens.forget(owner, token)
        _log.warning("the target refuses a delegation token", principal=owner, reason=reason)
        self._session.close(f"authentication failed: {reason}")

    def _plan(self, owner: str, lifetime_ms: int) -> None:
        """The Java client's window: at 85 to 95 % of a session's lifetime."""
        if lifetime_ms > 0:
            seconds = lifetime_ms / 1000
            self._upstream_ends_at = self._session.context.clock() + seconds
            self._repeat_in(seconds * (0.85 + 0.1 * self._identity.rng()), owner)

    def _repeat_in(self, seconds: float, owner: str) -> None:
        self._repeated = self._loop.call_later(seconds, lambda: self._spawn(self._repeat(owner)))

    async def _repeat(self, owner: str) -> None:
        session = self._session
        try:
            token = await self._identity.tokens.get(owner)
        except TokenRefused as error:
            session.close(f"authentication failed: {error}")
            return
        except ClusterUnavailable as error:
            if self._session.context.clock() + _AGAIN_S > self._upstream_ends_at:
                session.close(f"target broker unreachable: {error}")
            elif not session.closed:
                self._repeat_in(_AGAIN_S, owner)
            return
        if not session.closed:
            UpstreamLogin(
                session,
                token,
                lambda lifetime_ms: self._plan(owner, lifetime_ms),
                lambda reason: self._token_failed(owner, token, reason),
            )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._session.context.spawn(self._loop.create_task(work))
