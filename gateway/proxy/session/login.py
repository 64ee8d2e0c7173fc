"""Whether the target has accepted a session's login, and as whom.

The target itself authenticates the clients (`handlers/sasl.py`); what its answers mean depends on the mechanism (a
first answer without an error is not the end of SCRAM, and OAUTHBEARER fails with one), so none is read as its consent.
Before the first request that is not part of a login, the gateway sends one of its own on the client's connection that a
broker answers to nobody but who has logged in, as the client's would be: Metadata of no topics. The broker answers, or
closes the connection. Until then only the head of the client's request has been looked at.

A login ends when another one begins on the connection (KIP-368), and after the time that the broker gave it. What
comes then is proven anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from gateway.proxy.rules.limits import Limits
from gateway.proxy.session.exchange import Exchange, Transform
from gateway.proxy.session.streams import StreamError
from protocol.apis import ApiKey
from protocol.codec import encode_body
from protocol.messages import MetadataRequest
from protocol.sasl import principal_of
from protocol.wire import Buffer

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle

_METADATA, _METADATA_VERSION = int(ApiKey.METADATA), 8
OF_A_LOGIN: Final = frozenset((int(ApiKey.API_VERSIONS), int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)))
_NO_TOPICS = encode_body(
    MetadataRequest(
        topics=[],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    ),
    _METADATA_VERSION,
)


def require_small(size: int, limits: Limits) -> None:
    """Raises StreamError for a request that is larger than any of a login."""
    most = limits.login_request_bytes
    if size > most:
        raise StreamError(f"request of {size} bytes before a login (at most {most})")


class LoginContext(Protocol):
    """What sessions share."""

    clock: Callable[[], float]
    limits: Limits


class LoginSession(Protocol):
    """The session that logs in. `principal`: whom the target takes it for, '' before that."""

    @property
    def context(self) -> LoginContext:
        """What it shares with others."""

    principal: str
    closed: bool

    def stall(self) -> None:
        """Look at no further request until `look_again`."""

    def look_again(self) -> None:
        """Look again at the head of the request that waits."""

    def ask(self, api_key: int, api_version: int, body: Buffer, answer: Transform) -> None:
        """Send a request of the gateway's own on the client's connection to the broker."""

    def login_changed(self) -> None:
        """`Login.accepted` is another one."""


class Login:
    """The login of one session.

    Attributes:
        accepted: the target takes what the client sends; True where it asks for no login.
        since: when the login that is not accepted yet began; None when there is none.
    """

    __slots__ = (
        "_claimed",
        "_lifetime_ms",
        "_loop",
        "_mechanism",
        "_required",
        "_session",
        "_timer",
        "_unrefused",
        "accepted",
        "since",
    )

    def __init__(self, session: LoginSession, loop: AbstractEventLoop, *, required: bool) -> None:
        self._session = session
        self._loop = loop
        self._required = required
        self.accepted = not required
        self.since = session.context.clock() if required else None
        self._mechanism = ""
        self._claimed: str | None = None
        self._unrefused = False
        self._lifetime_ms = 0
        self._timer: TimerHandle | None = None

    def connected(self) -> bool:
        """See `SessionLogin`: the client itself logs in."""
        return True

    def sasl(self, exchange: Exchange) -> bool:
        """See `SessionLogin`: the target's, always."""
        return False

    def takes(self, api_key: int, size: int) -> bool:
        """Whether the request that begins is part of a login. If not it has to wait: the target is asked for its proof.

        Raises:
            StreamError: it is larger than any request of a login.
        """
        if api_key not in OF_A_LOGIN:
            self._prove()
            return False
        require_small(size, self._session.context.limits)
        return True

    def begins(self, mechanism: str) -> None:
        """SaslHandshake: a first login, or another one."""
        self._mechanism, self._claimed, self._unrefused = mechanism, None, False
        self._over()
        if self._required:
            self.since = self._session.context.clock()

    def says(self, message: bytes) -> None:
        """A client's message of a login: the first one names the principal."""
        if self._claimed is None:
            self._claimed = principal_of(self._mechanism, message) or ""

    def answered(self, error_code: int, lifetime_ms: int) -> None:
        """The broker's answer to it. It tells nothing but that the login is refused, or for how long it would hold."""
        self._unrefused, self._lifetime_ms = not error_code, lifetime_ms

    def _prove(self) -> None:
        session = self._session
        session.stall()
        self._loop.call_soon(self._ask)  # behind the end of the request before, which is being passed on

    def _ask(self) -> None:
        session = self._session
        if not session.closed:
            session.ask(_METADATA, _METADATA_VERSION, _NO_TOPICS, lambda _frame: self._proven())

    def _proven(self) -> None:
        self.accepted = True
        self.since = None
        session = self._session
        if self._unrefused:  # else the login before is the one that holds
            session.principal = self._claimed or ""
            if self._lifetime_ms > 0:
                self._stop_timer()
                self._timer = self._loop.call_later(self._lifetime_ms / 1000, self._over)
        session.login_changed()
        session.look_again()

    def closed(self) -> None:
        """The session has ended."""
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        if not self._required:
            return
        self.accepted = False
        self._stop_timer()
        if not self._session.closed:
            self._session.login_changed()
