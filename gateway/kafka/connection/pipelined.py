"""Pipelined requests and their responses on one socket: the I/O shell around `InboundFrames` and `Pipeline`.

The hot path (`send_now`, and the read of its response) makes no future, no task and no timer: a callback waits for
each response, and one timer per connection watches the oldest request in flight.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Self, cast

from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import ConnectionClosed, RequestTimedOut
from gateway.kafka.connection.pipeline import OnResponse, Pipeline
from gateway.kafka.connection.quota_rest import QuotaRest
from gateway.transport.event_loop_io import EventLoopIO
from gateway.transport.inbound import InboundFrames
from gateway.transport.sockets import connect_reason, forget_unsent, tune
from protocol.apis import api_name
from protocol.errors import MalformedFrame
from protocol.wire import Buffer

_log = logging.getLogger(__name__)

_JOIN_BYTES = 8 * 1024  # below this one copy is cheaper than one more buffer to write
_WRITE_HIGH_WATER = 1024 * 1024
_OVERDUE_GRACE_S = 0.1  # after a stall of our own loop the answer may be in the socket, unread


class PipelinedConnection(asyncio.BufferedProtocol):
    """A socket with requests in flight.

    Attributes:
        on_closed: called once each with this connection, after it is closed and every request in flight has got
            its None.
        close_reason: why it closed; empty while open.
        in_burst: several responses have come with the one that is told of now.
        rest: what the broker's quota asks of who sends here, who is to tell it what answers say.
    """

    to_broker = True

    def __init__(self, host: str, port: int, config: ClusterConfig, loop: asyncio.AbstractEventLoop) -> None:
        self.host, self.port = host, port
        self.on_closed: list[Callable[[Self], None]] = []
        self.close_reason = ""
        self.in_burst = False
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._inbound = InboundFrames(config.max_response_bytes)
        self._pipeline = Pipeline(config.client_id)
        self._timeout_s = config.request_timeout_s
        self._timer: asyncio.TimerHandle | None = None
        self._overdue = -1
        self._paused = False
        self._writable: list[Callable[[], None]] = []
        self._after: list[Callable[[], None]] = []
        self.rest = QuotaRest(loop, lambda: len(self._pipeline.in_flight))
        self._collected: list[Buffer] | None = None  # leaves in one go; None: what is sent leaves at once

    @property
    def closed(self) -> bool:
        """True once no request can be sent any more."""
        return bool(self.close_reason)

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

    def after_responses(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when all responses that have come with this one are with those who wait for them.

        For a callback of a response: a burst comes by one read, and what follows from it can be done in one go.
        """
        self._after.append(callback)

    def collect_in(self, event_loop_io: EventLoopIO) -> None:
        """What is sent from now on leaves with all that is collected there: a burst takes one system call.

        Small requests alone, so that `write_paused` says of the large ones at once that there are too many.
        """
        if self._collected is None and event_loop_io.collecting:
            self._collected = []
            event_loop_io.dirty.append(self)

    def flush(self) -> None:
        """Write what was collected."""
        pieces, self._collected = self._collected, None
        if not pieces or self._transport is None or self.close_reason:
            return
        self._transport.write(b"".join(pieces))

    def discard(self) -> None:
        """Close, without what was collected."""
        self._collected = None
        self.close("what was to be sent may not be any more: the write lease is over")

    def send_now(
        self,
        key: int,
        version: int,
        pieces: Sequence[Buffer],
        on_response: OnResponse,
        expect_response: bool = True,
        timeout_s: float | None = None,
    ) -> None:
        """`Connection.send`, but also while the connection authenticates: for the handshake itself."""
        transport = self._transport
        if self.close_reason or transport is None:
            raise ConnectionClosed(f"{self.host}:{self.port}: {self.close_reason or 'not connected'}")
        total = 0
        for piece in pieces:
            total += len(piece)
        deadline = self._loop.time() + (self._timeout_s if timeout_s is None else timeout_s)
        head = self._pipeline.head(key, version, total, on_response if expect_response else None, deadline)
        if self._collected is not None and total <= _JOIN_BYTES:
            self._collected += (head, *pieces)
        elif self._collected:  # what came before leaves before
            self._collected += (head, *pieces)
            collected, self._collected = self._collected, []
            transport.writelines(collected)
        elif total <= _JOIN_BYTES:
            transport.write(b"".join((head, *pieces)))
        else:
            transport.writelines((head, *pieces))
        if self._timer is None and expect_response:
            self._timer = self._loop.call_at(deadline, self._watch)

    async def exchange(
        self, send: Callable[..., None], key: int, version: int, body: Buffer, timeout_s: float | None = None
    ) -> memoryview:
        """Send one body by `send` or `send_now` and wait for the response's body.

        Raises:
            RequestTimedOut: no response within `timeout_s` (default `config.request_timeout_s`).
            ConnectionClosed: the connection closed first.
        """
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
        for on_response in self._take_waiting():
            self._call(on_response, None)
        self._resume_writers()
        self.rest.end()
        for callback in tuple(self.on_closed):
            self._call(callback, self)

    def take_back(self, reason: str) -> None:
        """`close`; and what has not come to the broker by now never will, however long it is out of reach."""
        if self._transport is not None and not self.close_reason:
            forget_unsent(self._transport.get_extra_info("socket"))
        self.close(reason)

    def _take_waiting(self) -> list[OnResponse]:
        """Who waits for a response, when none can come any more."""
        waiting = [entry.on_response for entry in self._pipeline.in_flight]
        self._pipeline.in_flight.clear()
        return waiting

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
            frames = self._inbound.advance(nbytes)
            self.in_burst = len(frames) > 1
            for frame in frames:
                on_response, body = self._pipeline.take(frame)
                try:
                    on_response(body)
                except Exception:  # noqa: BLE001 - a caller's fault must not end the connection of the others
                    _log.exception("a response callback failed", extra={"broker": f"{self.host}:{self.port}"})
                if self.close_reason:
                    return
        except MalformedFrame as exc:
            self.close(str(exc))
        finally:
            if self._after:
                callbacks, self._after = self._after, []
                for callback in callbacks:
                    self._call(callback)

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
        if self.rest.active:  # the broker reads nothing while it throttles
            due = max(due, self.rest.until + self._timeout_s)
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
