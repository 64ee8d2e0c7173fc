"""One pipelined connection to one broker: the I/O shell around `InboundFrames` and `Pipeline`.

The hot path (`send`, and the read of its response) makes no future, no task and no timer: a callback waits for
each response, and one timer per connection watches the oldest request in flight.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from gateway.net.config import ClusterConfig
from gateway.net.errors import ClusterUnavailable, ConnectionClosed, RequestTimedOut, UnsupportedVersion
from gateway.net.handshake import Authenticator, negotiate
from gateway.net.inbound import InboundFrames
from gateway.net.pipeline import OnResponse, Pipeline
from gateway.net.sockets import connect_reason, tune
from protocol.apis import APIS, api_name
from protocol.codec import decode_response, encode_body
from protocol.errors import MalformedFrame

Buffer: TypeAlias = bytes | bytearray | memoryview

_log = logging.getLogger(__name__)

_JOIN_BYTES = 8 * 1024  # below this one copy is cheaper than one more buffer to write
_WRITE_HIGH_WATER = 1024 * 1024
_OVERDUE_GRACE_S = 0.1  # after a stall of our own loop the answer may be in the socket, unread


class Connection(asyncio.BufferedProtocol):
    """A connection that is ready for requests. Made by `open`.

    Attributes:
        versions: API key -> (lowest, highest) version that the broker has.
        on_closed: called once each with this connection, after it is closed and every request in flight has got
            its None.
        close_reason: why it closed; empty while open.
    """

    def __init__(self, host: str, port: int, config: ClusterConfig, loop: asyncio.AbstractEventLoop) -> None:
        self.host, self.port = host, port
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.on_closed: list[Callable[[Connection], None]] = []
        self.close_reason = ""
        self._config = config
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._inbound = InboundFrames(config.max_response_bytes)
        self._pipeline = Pipeline(config.client_id)
        self._timeout_s = config.request_timeout_s
        self._timer: asyncio.TimerHandle | None = None
        self._overdue = -1
        self._paused = False
        self._writable: list[Callable[[], None]] = []
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
            context = ssl_context or config.ssl_context()
            async with asyncio.timeout(config.connect_timeout_s):
                await loop.create_connection(
                    lambda: connection, host, port, ssl=context, server_hostname=host if context else None
                )
                connection.versions = await negotiate(connection)
                if config.uses_sasl:
                    connection._authenticator = Authenticator(connection, config, loop)
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
    def closed(self) -> bool:
        """True once no request can be sent any more."""
        return bool(self.close_reason)

    @property
    def in_flight(self) -> int:
        """Requests that wait for their response."""
        held = self._authenticator.held if self._authenticator is not None else None
        return len(self._pipeline.in_flight) + (len(held) if held else 0)

    @property
    def write_paused(self) -> bool:
        """True while more than 1 MiB waits to be written: send no more until `when_writable`."""
        return self._paused

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Call `callback` once: when writing may go on, or when the connection closes; at once if it may now."""
        if self._paused and not self.closed:
            self._writable.append(callback)
        else:
            callback()

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

    def send_now(
        self,
        key: int,
        version: int,
        pieces: Sequence[Buffer],
        on_response: OnResponse,
        expect_response: bool = True,
        timeout_s: float | None = None,
    ) -> None:
        """`send`, but also while the connection authenticates: for the handshake itself."""
        transport = self._transport
        if self.close_reason or transport is None:
            raise ConnectionClosed(f"{self.host}:{self.port}: {self.close_reason or 'not connected'}")
        total = 0
        for piece in pieces:
            total += len(piece)
        deadline = self._loop.time() + (self._timeout_s if timeout_s is None else timeout_s)
        head = self._pipeline.head(key, version, total, on_response if expect_response else None, deadline)
        if total <= _JOIN_BYTES:
            transport.write(b"".join((head, *pieces)))
        else:
            transport.writelines((head, *pieces))
        if self._timer is None and expect_response:
            self._timer = self._loop.call_at(deadline, self._watch)

    async def request(self, message: Any, *, cap: int | None = None, timeout_s: float | None = None) -> Any:
        """Send one message of `protocol.messages` and return the decoded response, at the highest common version.

        Raises:
            UnsupportedVersion: no common version.
            RequestTimedOut: no response within `timeout_s` (default `config.request_timeout_s`).
            ConnectionClosed: the connection closed first, or the response could not be decoded.
        """
        key = int(message.API_KEY)
        codec_max = int(message.max_version)
        version = self.version(key, codec_max if cap is None else min(cap, codec_max))
        body = await self.exchange(self.send, key, version, encode_body(message, version), timeout_s)
        try:
            return decode_response(key, version, body)
        except MalformedFrame as exc:
            self.close(f"a malformed {api_name(key)} response: {exc}")
            raise ConnectionClosed(f"{self.host}:{self.port}: {self.close_reason}") from exc

    async def exchange(
        self, send: Callable[..., None], key: int, version: int, body: Buffer, timeout_s: float | None = None
    ) -> memoryview:
        """Send one body by `send` or `send_now` and wait for the response's body. Raises as `request` does."""
        answer: asyncio.Future[memoryview | None] = self._loop.create_future()

        def answered(response: memoryview | None) -> None:
            if not answer.done():
                answer.set_result(response)

        wait_s = self._timeout_s if timeout_s is None else timeout_s
        send(key, version, (body,), answered, True, max(wait_s, self._timeout_s))
        try:
            async with asyncio.timeout(wait_s):
                response = await answer
        except TimeoutError:
            why = f"{self.host}:{self.port}: no answer to {api_name(key)} within {wait_s:g} s"
            raise RequestTimedOut(why) from None
        if response is None:
            raise ConnectionClosed(f"{self.host}:{self.port}: {self.close_reason}")
        return response

    def close(self, reason: str = "closed by this client") -> None:
        """Close at once; every request in flight gets None. Does nothing when closed already."""
        if self.close_reason:
            return
        self.close_reason = reason or "closed"
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        waiting = [entry.on_response for entry in self._pipeline.in_flight]
        self._pipeline.in_flight.clear()
        if self._authenticator is not None:
            waiting += self._authenticator.stop()
        for on_response in waiting:
            self._call(on_response, None)
        self._resume_writers()
        for callback in tuple(self.on_closed):
            self._call(callback, self)

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the socket up."""
        tcp = cast(asyncio.Transport, transport)  # uvloop's transports are not subclasses of it
        if self.close_reason:
            tcp.abort()
            return
        self._transport = tcp
        tcp.set_write_buffer_limits(high=_WRITE_HIGH_WATER)
        tune(tcp.get_extra_info("socket"), self._timeout_s)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes."""
        return self._inbound.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Hand every response that is whole now to its callback."""
        try:
            for frame in self._inbound.advance(nbytes):
                on_response, body = self._pipeline.take(frame)
                try:
                    on_response(body)
                except Exception:  # noqa: BLE001 - a caller's fault must not end the connection of the others
                    _log.exception("a response callback failed", extra={"broker": f"{self.host}:{self.port}"})
                if self.close_reason:
                    return
        except MalformedFrame as exc:
            self.close(str(exc))

    def eof_received(self) -> None:
        """Close: half-open connections are of no use."""
        self.close("closed by the broker")

    def connection_lost(self, exc: Exception | None) -> None:
        """Close, with the transport's reason."""
        self.close(connect_reason(exc) if exc is not None else "closed by the broker")

    def pause_writing(self) -> None:
        """Too much waits to be written."""
        self._paused = True

    def resume_writing(self) -> None:
        """Writing may go on."""
        self._resume_writers()

    def _resume_writers(self) -> None:
        self._paused = False
        callbacks, self._writable = self._writable, []
        for callback in callbacks:
            self._call(callback)

    def _watch(self) -> None:
        """The one timer: is the oldest request in flight overdue?"""
        self._timer = None
        if not self._pipeline.in_flight:
            return
        oldest = self._pipeline.in_flight[0]
        due = oldest.deadline
        if due <= self._loop.time():
            if self._overdue == oldest.correlation_id:
                self.close(f"no answer within {self._timeout_s:g} s")
                return
            self._overdue = oldest.correlation_id
            due = self._loop.time() + _OVERDUE_GRACE_S
        self._timer = self._loop.call_at(due, self._watch)

    def _call(self, callback: Callable[..., None], *args: object) -> None:
        try:
            callback(*args)
        except Exception:  # noqa: BLE001 - a caller's fault must not end the connection of the others
            _log.exception("a callback failed", extra={"broker": f"{self.host}:{self.port}"})
