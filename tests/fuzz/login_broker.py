"""Brokers of the simulation that ask for a login, as a Kafka broker's SASL listener does.

Before a login they answer ApiVersions, SaslHandshake and SaslAuthenticate, and close the connection on anything else.
The mechanisms are there as far as their messages differ for a gateway: PLAIN takes one round, SCRAM two, OAUTHBEARER
one, or two when it fails (RFC 7628), and a login may end after a while (KIP-368).

They also know who each connection of the gateway was made for (`loop.CAUSE`): the moment in which a broker takes a
login is the moment from which the gateway may do anything for that client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from protocol.apis import ApiKey
from protocol.codec import decode_request, encode_body
from protocol.errors import ErrorCode, ProtocolError
from protocol.header import peek_request_header, response_prefix
from protocol.messages import (
    RESPONSES,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from protocol.wire import Buffer
from tests.fuzz.loop import CAUSE, Cause
from tests.fuzz.values import Filler
from tests.simulation.kafka.broker import HANDLERS, PORT, Broker, CloseConnection, Session, _Connection
from tests.simulation.kafka.cluster import ClusterModel

GATEWAY: Final = "lockgate"
USERS: Final[Mapping[str, int]] = {GATEWAY: 0, "alice": 0, "bob": 0, "brief": 3_000}
"""Who may log in, each with its name as password, and for how many ms a login holds (0: for good)."""
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
_OF_A_LOGIN: Final = frozenset((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
_SIZE_BYTES: Final = 4


@dataclass(slots=True)
class LoginSession(Session):
    """A connection's login. `principal`: '' before one. `until`: the loop's time at which it ends, 0 for never."""

    cause: Cause | None = None
    mechanism: str = ""
    rounds: int = 0
    claimed: str = ""
    principal: str = ""
    until: float = 0.0


class LoginBroker(Broker):
    """See the module. `filler`: makes the answers of APIs that the broker model lacks."""

    filler: Filler

    async def handle(self, frame: Buffer, session: Session) -> bytes | None:
        """As `Broker.handle`. What stumbles in the model is a broker that closes the connection."""
        assert isinstance(session, LoginSession)
        if session.cause is not None and not session.cause.accepted:
            session.cause.login_bytes = max(session.cause.login_bytes, len(frame))
        try:
            header = peek_request_header(frame)
            body = memoryview(frame)[header.body_offset :]
            key, version = header.api_key, header.api_version
            if key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
                answer = self._sasl(key, decode_request(key, version, body), session)
            elif not self._serves(key, session):
                raise self.close(session, f"API {key} before a login")
            elif key in HANDLERS:
                return await super().handle(frame, session)
            else:
                answer = self._made_up(key, version)
        except ProtocolError as exc:
            raise self.close(session, str(exc)) from exc
        except CloseConnection:
            raise
        except Exception as exc:  # the model's fault, not the gateway's
            raise self.close(session, f"the broker model: {exc!r}") from exc
        encoded = encode_body(answer, version)
        return response_prefix(key, version, header.correlation_id, len(encoded))[_SIZE_BYTES:] + encoded

    def _serves(self, key: int, session: LoginSession) -> bool:
        if key == ApiKey.API_VERSIONS:
            return not session.mechanism or bool(session.principal)
        if session.until and self.cluster.loop.time() > session.until:
            return False
        return bool(session.principal)

    def _made_up(self, key: int, version: int) -> Any:
        kind = RESPONSES.get(key)
        if kind is None or version > kind.max_version:
            raise CloseConnection(f"no answer for API {key} v{version}")
        return self.filler.message(kind, version)

    # -- logins --------------------------------------------------------------------------------------------------

    def _sasl(self, key: int, message: Any, session: LoginSession) -> Any:
        return self._handshake(message, session) if key == ApiKey.SASL_HANDSHAKE else self._login(message, session)

    def _handshake(self, message: SaslHandshakeRequest, session: LoginSession) -> Any:
        if message.mechanism not in MECHANISMS:
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(MECHANISMS))
        session.mechanism, session.rounds, session.claimed = message.mechanism, 0, ""
        return SaslHandshakeResponse(error_code=0, mechanisms=list(MECHANISMS))

    def _login(self, message: SaslAuthenticateRequest, session: LoginSession) -> Any:
        said = bytes(message.auth_bytes or b"")
        if not session.mechanism:
            return _refused(ErrorCode.ILLEGAL_SASL_STATE)
        session.rounds += 1
        if session.mechanism == "PLAIN":
            parts = said.split(b"\0")
            user = parts[1].decode("utf-8", "replace") if len(parts) == 3 and parts[1] == parts[2] else ""
            return self._over(user, session)
        if session.mechanism == "OAUTHBEARER":
            if session.rounds == 1 and b"auth=Bearer " not in said:
                return _goes_on(b'{"status":"invalid_token"}')
            return self._over(
                said.partition(b"auth=Bearer ")[2].partition(b"\x01")[0].decode("utf-8", "replace"), session
            )
        if session.rounds == 1:
            session.claimed = said.partition(b"n=")[2].partition(b",")[0].decode("utf-8", "replace")
            return _goes_on(b"r=nonce,s=c2FsdA==,i=4096")
        return self._over(session.claimed if said.endswith(b"p=" + session.claimed.encode()) else "", session)

    def _over(self, user: str, session: LoginSession) -> Any:
        session.mechanism = "" if user not in USERS else session.mechanism
        if user not in USERS or session.principal not in ("", user):
            return _refused(ErrorCode.SASL_AUTHENTICATION_FAILED)
        session.principal = user
        lifetime_ms = USERS[user]
        session.until = self.cluster.loop.time() + lifetime_ms / 1000 if lifetime_ms else 0.0
        if session.cause is not None:
            session.cause.accepted = True
        return SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=lifetime_ms
        )

    async def listen(self) -> None:
        """Open the port."""
        loop = self.cluster.sim
        assert loop is not None
        self.server = await loop.create_server(lambda: _LoginConnection(self), self.host, PORT)


class _LoginConnection(_Connection):
    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._session: LoginSession = LoginSession()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._session.cause = transport.peer.context.get(CAUSE)


def _refused(code: ErrorCode) -> Any:
    return SaslAuthenticateResponse(error_code=code, error_message="no", auth_bytes=b"", session_lifetime_ms=0)


def _goes_on(message: bytes) -> Any:
    return SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=message, session_lifetime_ms=0)


def secured(cluster: ClusterModel, filler: Filler) -> None:
    """Have the brokers of a cluster that has not started ask for logins."""
    for number, broker in list(cluster.brokers.items()):
        made = LoginBroker(cluster, number, broker.sessions)
        made.filler = filler
        cluster.brokers[number] = made
