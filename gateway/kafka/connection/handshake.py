"""The first words on a connection: ApiVersions (KIP-35, KIP-511), SASL, and SASL again before it expires (KIP-368)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib import metadata
from types import MappingProxyType
from typing import Any

from gateway.kafka.connection.config import OAUTHBEARER, TOKEN_MECHANISM, ClusterConfig
from gateway.kafka.connection.errors import AuthenticationFailed, ConnectionClosed
from gateway.kafka.connection.pipeline import OnResponse
from gateway.kafka.connection.pipelined import PipelinedConnection
from gateway.kafka.connection.sasl import Mechanism, OAuthBearer, Scram, bearer_token, mechanism
from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_body
from protocol.errors import ErrorCode, MalformedFrame, error_name
from protocol.messages import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest

_SOFTWARE = "lockgate"
_API_VERSIONS_MAX = 4


async def negotiate(connection: PipelinedConnection) -> Mapping[int, tuple[int, int]]:
    """Ask which API versions the broker has. Falls back to an older request when it does not know ours.

    Raises:
        ConnectionClosed: an error, or an answer that is none.
    """
    version, code = _API_VERSIONS_MAX, int(ErrorCode.UNSUPPORTED_VERSION)
    for _ in range(2):
        request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=_software_version())
        body = await connection.exchange(
            connection.send_now, ApiKey.API_VERSIONS, version, encode_body(request, version)
        )
        # An error comes in a version 0 body whatever was asked for (KIP-511).
        failed = bytes(body[:2]) != b"\0\0"
        with _malformed_closes(connection):
            code, ranges = _api_versions(bytes(body), 0 if failed else version)
        if not failed:
            return ranges
        if code != ErrorCode.UNSUPPORTED_VERSION:
            break
        # Brokers before 2.4 leave the ranges out: then version 0 is the one they must have.
        version = min(_API_VERSIONS_MAX, ranges.get(ApiKey.API_VERSIONS, (0, 0))[1])
    raise ConnectionClosed(f"{connection.host}:{connection.port}: ApiVersions: {error_name(code)}")


class Authenticator:
    """SASL on one connection, repeated before the broker's session lifetime ends.

    While it is repeated, `held` is a list, and the connection's requests wait in it: the broker takes nothing
    but SASL frames then.

    Args:
        version: of SaslAuthenticate: the highest that the broker and we have.
    """

    def __init__(
        self,
        connection: PipelinedConnection,
        config: ClusterConfig,
        loop: asyncio.AbstractEventLoop,
        version: int,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.held: list[tuple[Any, ...]] | None = None
        self._connection = connection
        self._config = config
        self._loop = loop
        self._version = version
        self._rng = rng
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    async def log_in(self) -> None:
        """Authenticate, and plan the next time.

        Raises:
            AuthenticationFailed: the broker refused the mechanism or the credentials.
            ConnectionClosed, RequestTimedOut: as in `Connection.request`.
        """
        await self._handshake()
        lifetime_ms = await self._exchange_tokens()
        if lifetime_ms > 0:
            # The Java client's window, 85 to 95 % of the lifetime: many connections do not come at once.
            self._timer = self._loop.call_later(lifetime_ms / 1000 * (0.85 + 0.1 * self._rng()), self._again)

    def stop(self) -> list[OnResponse]:
        """The connection is closed: who of the held requests waits for an answer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None and self._task is not asyncio.current_task(self._loop):
            self._task.cancel()
        held, self.held = self.held, None
        return [on_response for _, _, _, on_response, expected, _ in held or () if expected]

    async def _handshake(self) -> None:
        name = self._config.sasl_mechanism if self._config.token is None else TOKEN_MECHANISM
        response = await self._ask(SaslHandshakeRequest(mechanism=name), ApiKey.SASL_HANDSHAKE, 1)
        if response.error_code:
            offered = ", ".join(response.mechanisms) or "none"
            raise AuthenticationFailed(f"{self._where}: {name} is not offered (the broker has {offered})")

    async def _exchange_tokens(self) -> int:
        """Returns the session's lifetime in milliseconds, 0 for no limit."""
        sasl = await self._mechanism()
        token: bytes | None = sasl.first()
        version = min(2, self._version)
        lifetime_ms = 0
        while token is not None:
            response = await self._ask(SaslAuthenticateRequest(auth_bytes=token), ApiKey.SASL_AUTHENTICATE, version)
            if response.error_code:
                why = response.error_message or error_name(response.error_code)
                raise AuthenticationFailed(f"{self._where}: {why}")
            lifetime_ms = response.session_lifetime_ms if version >= 1 else 0
            told = bytes(response.auth_bytes)
            try:
                token = await asyncio.to_thread(sasl.respond, told) if sasl.takes_long else sasl.respond(told)
            except AuthenticationFailed as exc:
                raise AuthenticationFailed(f"{self._where}: {exc}") from exc
        return lifetime_ms

    async def _mechanism(self) -> Mechanism:
        """With the credentials of now."""
        config = self._config
        if config.token is not None:
            return Scram(TOKEN_MECHANISM, *await config.token(), is_token=True)
        if config.sasl_mechanism == OAUTHBEARER:
            return OAuthBearer(await bearer_token(config))
        return mechanism(config.sasl_mechanism, *config.login())

    async def _ask(self, message: Any, key: int, version: int) -> Any:
        body = await self._connection.exchange(self._connection.send_now, key, version, encode_body(message, version))
        return _decode(self._connection, key, version, body)

    def _again(self) -> None:
        self.held = []
        self._task = self._loop.create_task(self._log_in_again(), name=f"sasl {self._where}")

    async def _log_in_again(self) -> None:
        try:
            async with asyncio.timeout(self._config.connect_timeout_s):
                await self.log_in()
        except Exception as exc:  # noqa: BLE001 - whatever it was, the connection cannot be used on
            self._connection.close(f"re-authentication failed: {str(exc) or 'timed out'}")
            return
        held, self.held = self.held, None
        for request in held or ():
            if not self._connection.closed:
                self._connection.send_now(*request)

    @property
    def _where(self) -> str:
        return f"{self._connection.host}:{self._connection.port}"


@lru_cache(maxsize=32)  # each connection asks, and the brokers of a cluster answer alike
def _api_versions(body: bytes, version: int) -> tuple[int, Mapping[int, tuple[int, int]]]:
    response = decode_response(ApiKey.API_VERSIONS, version, memoryview(body))
    ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    return response.error_code, MappingProxyType(ranges)


def _decode(connection: PipelinedConnection, key: int, version: int, body: memoryview) -> Any:
    with _malformed_closes(connection):
        return decode_response(key, version, body)


@contextmanager
def _malformed_closes(connection: PipelinedConnection) -> Iterator[None]:
    try:
        yield
    except MalformedFrame as exc:
        connection.close(f"a malformed answer in the handshake: {exc}")
        raise ConnectionClosed(f"{connection.host}:{connection.port}: {connection.close_reason}") from exc


@cache  # it is read from a file
def _software_version() -> str:
    try:
        return metadata.version(_SOFTWARE)
    except metadata.PackageNotFoundError:
        return "0"
