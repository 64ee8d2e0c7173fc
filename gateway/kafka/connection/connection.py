"""One connection to one broker, ready for requests: opened, authenticated, and at versions that both sides have."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.kafka.acts import is_change, require_permit
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import ClusterUnavailable, ConnectionClosed, UnsupportedVersion
from gateway.kafka.connection.handshake import Authenticator, negotiate
from gateway.kafka.connection.pipeline import OnResponse
from gateway.kafka.connection.pipelined import PipelinedConnection
from gateway.transport.sockets import connect_reason
from protocol.apis import APIS, ApiKey, api_name
from protocol.codec import decode_response, encode_body
from protocol.errors import MalformedFrame
from protocol.raw import RawRequest, throttle_ms
from protocol.wire import Buffer

_BARRIERS = 20  # whoever sends on and on, one request after the other, is cut off after so many


class Connection(PipelinedConnection):
    """A connection that is ready for requests. Made by `open`.

    Attributes:
        versions: API key -> (lowest, highest) version that the broker has.
    """

    def __init__(self, host: str, port: int, config: ClusterConfig, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(host, port, config, loop)
        self.versions: Mapping[int, tuple[int, int]] = {}
        self._authenticator: Authenticator | None = None

    @classmethod
    async def open(
        cls, host: str, port: int, config: ClusterConfig, ssl_context: ssl.SSLContext | None = None
    ) -> Connection:
        """Connect, do TLS, ask for the API versions, authenticate: all within `config.connect_timeout_s`.

        Args:
            ssl_context: made by `config.ssl_context()` when not given; hand one in to read the PEM files once.

        Raises:
            ClusterUnavailable: with the address and what failed; AuthenticationFailed is one of these.
        """
        loop = asyncio.get_running_loop()
        connection = cls(host, port, config, loop)
        try:
            config.may_reach(host, port)
            context = ssl_context or config.ssl_context()
            async with asyncio.timeout(config.connect_timeout_s):
                await loop.create_connection(
                    lambda: connection, host, port, ssl=context, server_hostname=host if context else None
                )
                connection.versions = await negotiate(connection)
                if config.uses_sasl:
                    connection._authenticator = Authenticator(
                        connection, config, loop, connection.version(ApiKey.SASL_AUTHENTICATE)
                    )
                    await connection._authenticator.log_in()
        except TimeoutError:
            connection.close("timed out")
            raise ClusterUnavailable(f"{host}:{port}: not connected within {config.connect_timeout_s:g} s") from None
        except (OSError, ValueError) as exc:
            connection.close("failed")
            reason = connect_reason(exc)
            if isinstance(exc, ConnectionResetError) and config.uses_tls:
                reason += " during the TLS handshake: is security.protocol right?"
            raise ClusterUnavailable(f"{host}:{port}: {reason}") from exc
        except BaseException:
            connection.close("failed")
            raise
        return connection

    def __repr__(self) -> str:
        state = f"closed: {self.close_reason}" if self.closed else f"{self.in_flight} in flight"
        return f"<Connection {self.host}:{self.port} {state}>"

    @property
    def in_flight(self) -> int:
        """Requests that wait for their response."""
        held = self._authenticator.held if self._authenticator is not None else None
        return len(self._pipeline.in_flight) + (len(held) if held else 0)

    def version(self, key: int, cap: int | None = None) -> int:
        """The highest version of an API that the broker, this client and `cap` allow.

        Raises:
            UnsupportedVersion: there is none.
        """
        api = APIS[key]
        low, high = self.versions.get(key, (0, -1))
        best = min(high, api.max_version if cap is None else min(cap, api.max_version))
        if best < max(low, api.min_version):
            has = f"{low} to {high}" if high >= low else "none"
            limit = api.max_version if cap is None else cap
            raise UnsupportedVersion(
                f"{self.host}:{self.port}: {api_name(key)} {api.min_version} to {limit} is needed, the broker has {has}"
            )
        return best

    def send(
        self,
        key: int,
        version: int,
        pieces: Sequence[Buffer],
        on_response: OnResponse,
        expect_response: bool = True,
        timeout_s: float | None = None,
    ) -> None:
        """Send a request whose body is `pieces`, after whatever was sent before.

        The pieces must not change until they are written (best: never). Each response is a read-only view, valid
        for as long as it is kept.

        Args:
            on_response: gets the response's body, or None when the connection closed before it came: then the
                outcome is unknown. Never called when `expect_response` is False (Produce with acks=0).
            timeout_s: default `config.request_timeout_s`; the connection is closed when it passes.

        Raises:
            ConnectionClosed: it was closed already: nothing was sent.
        """
        if self._authenticator is not None and self._authenticator.held is not None:
            self._authenticator.held.append((key, version, pieces, on_response, expect_response, timeout_s))
            return
        self.send_now(key, version, pieces, on_response, expect_response, timeout_s)

    async def request(self, message: Any, *, cap: int | None = None, timeout_s: float | None = None) -> Any:
        """Send one message of `protocol.messages`, or a `RawRequest`, and return the decoded response, at the highest
        common version.

        While the broker throttles this connection nothing is sent (`quota_rest.py`): it would only wait there, in front
        of what others send.

        Raises:
            ClusterUnavailable: it throttles the connection for longer than `timeout_s`: nothing was sent.
            ActRefused: it changes the cluster, and may not (any more): nothing was sent. See `kafka/acts.py`.
            UnsupportedVersion: no common version.
            RequestTimedOut: no response within `timeout_s` (default `config.request_timeout_s`).
            ConnectionClosed: the connection closed first, or the response could not be decoded.
        """
        key = int(message.API_KEY)
        if self.rest.active and not self.rest.may_send():
            await self._rested(key, timeout_s)
        if is_change(message):
            require_permit(api_name(key))
        codec_max = int(message.max_version)
        version = self.version(key, codec_max if cap is None else min(cap, codec_max))
        is_raw = isinstance(message, RawRequest)
        asked = message.encode(version) if is_raw else encode_body(message, version)
        body = await self.exchange(self.send, key, version, asked, timeout_s)
        try:
            answer = message.decode(body, version) if is_raw else decode_response(key, version, body)
            throttled = throttle_ms(message, body, version) if is_raw else getattr(answer, "throttle_time_ms", 0)
            if throttled or self.rest.active:
                self.rest.told(throttled)
            return answer
        except MalformedFrame as exc:
            self.close(f"a malformed {api_name(key)} response: {exc}")
            raise ConnectionClosed(f"{self.host}:{self.port}: {self.close_reason}") from exc

    async def _rested(self, key: int, timeout_s: float | None) -> None:
        """Until the broker reads this connection again, as far as it has said. Raises as `request`."""
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        may_send = asyncio.Event()
        leave = self.rest.when_may_send(may_send.set)
        try:
            async with asyncio.timeout(wait_s):
                await may_send.wait()
        except TimeoutError:
            raise ClusterUnavailable(
                f"{self.host}:{self.port}: {api_name(key)} was not sent: the broker throttles this connection by a "
                f"quota for {self.rest.left_s:.1f} s yet"
            ) from None
        finally:
            leave()

    def retire(self, reason: str) -> None:
        """Close as soon as all that was sent is answered; the caller sends nothing more.

        A broker answers a connection's requests in order, so one more request tells when it has taken those, too,
        that have no answer (Produce with acks=0).
        """
        self._retire(reason, _BARRIERS)

    def _retire(self, reason: str, left: int) -> None:
        def answered(_: Buffer | None) -> None:
            if self.in_flight and left and not self.closed:
                self._retire(reason, left - 1)
            else:
                self.close(reason)

        if not self.closed:
            self.send(ApiKey.API_VERSIONS, 0, (), answered)

    def _take_waiting(self) -> list[OnResponse]:
        waiting = super()._take_waiting()
        if self._authenticator is not None:
            waiting += self._authenticator.stop()
        return waiting
