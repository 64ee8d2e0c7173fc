"""One client connection and its own connection to the target broker, glued together.

The session is the sink of both byte streams. It owns order (Sequencer), back-pressure in both directions, and
stalling: while a handler holds a request, nothing later on the connection is looked at, as in a real broker
that mutes the channel. Decisions are the handlers'; everything here runs on the event loop without awaiting.
"""

from __future__ import annotations

import itertools
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from gateway.domain.gates import Identity
from gateway.domain.leader_order import LeaderOrder
from gateway.domain.pipeline_guard import PipelineGuard
from gateway.net.wire import SPLICE_BYTES, Wire
from gateway.proxy.context import Handler, ProxyContext
from gateway.proxy.exchange import Buffer, Exchange, Transform
from gateway.proxy.sequencer import Sequencer
from gateway.proxy.streams import (
    REQUEST_HEAD,
    REQUEST_HEAD_BYTES,
    RESPONSE_HEAD,
    RequestStream,
    ResponseStream,
    StreamError,
)
from protocol.apis import APIS, ApiKey, is_supported
from protocol.errors import IncompleteFrame, ProtocolError
from protocol.header import encode_request_header, peek_request_header
from protocol.peek import only_topic, plain_acks, produce_acks

_log = structlog.get_logger("lockgate.proxy")
_SIZE = struct.Struct(">i")
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_PRODUCE = int(ApiKey.PRODUCE)
SUPPORTED = frozenset(
    int(key) << 16 | version
    for key, api in APIS.items()
    for version in range(api.min_version, api.max_version + 1)
    if is_supported(key, version)
)
_ANSWERED = (-1, 1)  # acks
BACKLOG_BYTES = 262_144  # read ahead of a stalled connection, so that its end is noticed; then reading pauses
_ids = itertools.count(1)


class Connected(Protocol):
    """A connection to write to: a `Wire`, or a transport in its guise. What is given to write may change after."""

    def write(self, data: Buffer) -> None:
        """Write."""

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        """Write several pieces as one."""

    def pause_reading(self) -> None:
        """Read no more."""

    def resume_reading(self) -> None:
        """Read on."""

    def close(self) -> None:
        """Close, when what was written has left."""


class Session:
    """A client of the gateway. `node_id` is the target broker it speaks to (None on the bootstrap port)."""

    def __init__(self, context: ProxyContext, node_id: int | None) -> None:
        self.id = next(_ids)
        self.context = context
        self.node_id = node_id
        self.host = ""
        self.client_id: str | None = None
        self.principal = ""
        self.sasl_mechanism = ""
        self.authorized: dict[str, tuple[float, bool]] = {}  # topic -> (asked at, may write)
        self.pipeline = PipelineGuard()
        self.order = LeaderOrder()
        self.last_active = context.clock()
        self.closed = False
        self.on_close: list[Callable[[], None]] = []
        self.stand_in: Handler | None = None  # serves it without its broker
        self._client: Connected
        self._upstream: Connected | None = None
        self._requests = RequestStream(self, context.max_request_bytes)
        self._responses = ResponseStream(self)
        self._sequencer = Sequencer()
        self._expected: deque[Exchange] = deque()  # what the upstream will answer, in its order
        self._current: Exchange | None = None  # the upstream response being received
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._stalled = True  # until the upstream is connected
        self._feeding = False
        self._draining = False
        self._paused_for: set[str] = set()
        self._asks = itertools.count(1)

    # -- what handlers use ---------------------------------------------------------------------------------

    @property
    def identity(self) -> Identity:
        """The client as the gates know it."""
        return Identity(self.host, self.client_id or "", self.principal)

    @property
    def idle(self) -> bool:
        """True when nothing whole is unanswered: a member that waits at a gate is not idle, half a request is."""
        return len(self._sequencer) == (1 if self._requests.collecting else 0)

    def stall(self) -> None:
        """Look at nothing later on this connection until `resume`."""
        self._stalled = True

    def resume(self) -> None:
        """Go on with what has arrived meanwhile."""
        self._stalled = False
        if not self._feeding:
            self._work_off_backlog()

    def again(self, action: Callable[[], None]) -> None:
        """End a stall with `action` (answer, forward, or handle once more, which may stall anew); then go on."""
        if self.closed:
            return
        self._stalled = False
        try:
            action()
        except Exception as error:  # noqa: BLE001 - a bug of ours must stay in this connection
            _log.exception("request handling failed", session=self.id, client_id=self.client_id)
            self.close(f"internal error: {error!r}")
        if not self._stalled and not self.closed:
            self.resume()

    def ask(self, api_key: int, api_version: int, body: Buffer, answer: Transform) -> None:
        """Send a request of our own on the client's connection; `answer` gets the response frame."""
        exchange = Exchange(self, api_key, api_version, -next(self._asks), self.context.clock())
        exchange.internal = True
        exchange.transform = answer
        header = encode_request_header(api_key, api_version, exchange.correlation_id, "lockgate")
        self.send_upstream(exchange, len(header) + len(body), (header, body))

    def send_upstream(self, exchange: Exchange, size: int, pieces: Sequence[Buffer]) -> None:
        """Send a framed request to the target broker and expect its answer for `exchange`.

        Legal inside `handle`, or later while the handler stalls the session: only then is the stream of opaque
        bytes known to be between two frames.
        """
        if self._upstream is None or self.closed:
            return
        if not self._requests.at_boundary:
            raise RuntimeError("a request would be sent into the middle of another one")
        self._expected.append(exchange)
        self._upstream.writelines((_SIZE.pack(size), *pieces))

    def unanswered_by_target(self) -> tuple[Exchange, ...]:
        """What the target broker has not begun to answer yet, in its order."""
        return tuple(self._expected)

    def send_unanswered(self, size: int, pieces: Sequence[Buffer]) -> None:
        """Send a request that the target broker will not answer (acks=0)."""
        if self._upstream is not None:
            self.context.stats.last_unanswered = self.context.clock()
            self._upstream.writelines((_SIZE.pack(size), *pieces))

    def answer(self, exchange: Exchange, response: Buffer) -> None:
        """Take an exchange's framed response; it leaves when its turn comes."""
        if self.closed:
            return
        ready = self._sequencer.answer(exchange, response)
        self.context.stats.finished(exchange, len(response))
        if ready:
            self._client.writelines(ready)
        if self._draining:
            self._close_if_drained()

    def close(self, reason: str) -> None:
        """Close both connections. Whatever is unanswered stays so: the client retries elsewhere."""
        if self.closed:
            return
        self.closed = True
        _log.debug("connection closed", session=self.id, client=self.host, client_id=self.client_id, reason=reason)
        self._client.close()
        if self._upstream is not None:
            self._upstream.close()
        for callback in self.on_close:
            callback()
        self.on_close.clear()
        self.context.session_closed(self, reason)

    def drain(self) -> None:
        """Take no further request; close once all that were taken are answered."""
        self._draining = True
        self._pause_reading("draining")
        self._close_if_drained()

    # -- bytes from the client -----------------------------------------------------------------------------

    def client_data(self, data: Buffer) -> None:
        """Bytes arrived from the client. They change after the call."""
        if self._stalled or self._backlog:
            self._backlog.append(bytes(data))
            self._backlog_bytes += len(data)
            if self._backlog_bytes > BACKLOG_BYTES:
                self._pause_reading("backlog")
        elif self._requests.busy or not self._pass_request(data, len(data)):
            self._feed(data)

    def request_peeked(self, data: Buffer) -> bool:
        """See `Receiver.peeked`."""
        if self._stalled or self._backlog or self._requests.busy or len(data) < REQUEST_HEAD_BYTES:
            return False
        return REQUEST_HEAD.unpack_from(data)[0] >= SPLICE_BYTES and self._pass_request(data, 0)

    def _pass_request(self, data: Buffer, have: int) -> bool:
        """The common case in one piece: `data` is one opaque request, or its beginning. False: it is something else.

        `have` bytes of it are passed on, all or (only peeked at) none.

        What `_feed` does for it, in a third of the time: on a busy machine each further function is one that has
        fallen out of the processor's caches since the last request.
        """
        if len(data) < REQUEST_HEAD_BYTES:
            return False
        size, api_key, api_version, correlation_id = REQUEST_HEAD.unpack_from(data)
        context, upstream = self.context, self._upstream
        if size + 4 < have or size > context.max_request_bytes or api_key << 16 | api_version not in SUPPORTED:
            return False
        handler = context.handlers[api_key]
        if handler is not None and handler.wants(self) and not self._is_plain(api_key, api_version, data, 12):
            return False
        if upstream is None or (api_key == _PRODUCE and plain_acks(data, api_version) not in _ANSWERED):
            return False
        self.last_active = now = context.clock()
        exchange = Exchange(self, api_key, api_version, correlation_id, now)
        self._sequencer.queue.append(exchange)
        self._expected.append(exchange)
        context.stats.began(api_key, size)
        self._requests.through = size + 4 - have
        if have:
            upstream.write(data)
        return True

    def _feed(self, data: Buffer) -> None:
        self.last_active = self.context.clock()
        self._feeding = True
        self.context.wires.collect()
        try:
            rest = self._requests.feed(data)
            if rest is not None:
                self._backlog.appendleft(bytes(rest))
                self._backlog_bytes += len(rest)
        except (StreamError, ProtocolError) as error:
            self.close(f"bad request: {error}")
        except Exception as error:  # noqa: BLE001 - a bug of ours must stay in this connection
            _log.exception("request handling failed", session=self.id, client_id=self.client_id)
            self.close(f"internal error: {error!r}")
        finally:
            self._feeding = False
            self.context.wires.flush()

    def _work_off_backlog(self) -> None:
        while self._backlog and not self._stalled and not self.closed:
            data = self._backlog.popleft()
            self._backlog_bytes -= len(data)
            self._feed(data)
        if not self._backlog:
            self._resume_reading("backlog")

    def begin(self, api_key: int, api_version: int, correlation_id: int, size: int, head: memoryview) -> bool | None:
        """A request's header: decide between passing its bytes on and collecting it."""
        if not is_supported(api_key, api_version) and api_key != _API_VERSIONS:
            raise StreamError(f"api key {api_key} version {api_version} is not supported")
        handler = self.stand_in or self.context.handlers[api_key]
        if handler is None or not handler.wants(self) or self._is_plain(api_key, api_version, head, 8):
            if api_key == _PRODUCE:
                acks = _acks_of(head, api_version)
                if acks is None:
                    if len(head) >= size:
                        raise StreamError("produce request without acks")
                    return None
                if acks == 0:
                    self.context.stats.unanswered(api_key, size)
                    return False
            exchange = Exchange(self, api_key, api_version, correlation_id, self.last_active)
            self._sequencer.begin(exchange)
            self._expected.append(exchange)
            self.context.stats.began(api_key, size)
            return False
        self._sequencer.begin(Exchange(self, api_key, api_version, correlation_id, self.last_active))
        self.context.stats.began(api_key, size)
        return True

    def _is_plain(self, api_key: int, api_version: int, head: Buffer, at: int) -> bool:
        """A Produce of one topic that is none of the mirror's, outside of a transaction: it need not be collected."""
        if api_key != _PRODUCE or self.stand_in or self.pipeline or plain_acks(head, api_version, at) not in _ANSWERED:
            return False
        topic = only_topic(head, api_version, at)
        return topic is not None and self.context.routing.current.passes(topic)

    def passed(self, data: Buffer) -> None:
        """Opaque request bytes go on as they are."""
        if self._upstream is not None:
            self._upstream.write(data)

    def collected(self, frame: memoryview) -> bool:
        """A whole intercepted request goes to its handler."""
        exchange = self._sequencer.queue[-1]
        header = peek_request_header(frame)
        exchange.frame = frame
        exchange.client_id = self.client_id = header.client_id
        exchange.body_offset = header.body_offset
        handler = self.stand_in or self.context.handlers[exchange.api_key]
        if handler is None:  # what it wanted has passed while the frame was collected
            exchange.forward()
        else:
            handler.handle(self, exchange)
        return not self._stalled and not self.closed

    # -- bytes from the target broker ----------------------------------------------------------------------

    def upstream_data(self, data: Buffer) -> None:
        """Bytes arrived from the target broker. They change after the call."""
        if not self._responses.busy and self._pass_response(data, len(data)):
            return
        self.context.wires.collect()
        try:
            self._responses.feed(data)
        except (StreamError, ProtocolError) as error:
            self.close(f"bad response from broker {self.node_id}: {error}")
        except Exception as error:  # noqa: BLE001 - a bug of ours must stay in this connection
            _log.exception("response handling failed", session=self.id, client_id=self.client_id)
            self.close(f"internal error: {error!r}")
        finally:
            self.context.wires.flush()

    def response_peeked(self, data: Buffer) -> bool:
        """See `Receiver.peeked`."""
        if self._responses.busy or len(data) < 8:
            return False
        return RESPONSE_HEAD.unpack_from(data)[0] >= SPLICE_BYTES and self._pass_response(data, 0)

    def _pass_response(self, data: Buffer, have: int) -> bool:
        """The same for responses: one that is opaque and whose turn it is, or its beginning."""
        expected, queue = self._expected, self._sequencer.queue
        if len(data) < 8 or not expected or len(expected) != len(queue):  # nobody waits for a response from elsewhere
            return False
        size, correlation_id = RESPONSE_HEAD.unpack_from(data)
        exchange = expected[0]
        if exchange.correlation_id != correlation_id or exchange.transform is not None or not 4 <= size >= have - 4:
            return False
        if queue[0] is not exchange or self._draining:
            return False
        expected.popleft()
        through = self._responses.through = size + 4 - have
        if have:
            self._client.write(data)
        if through:
            self._current = exchange
        else:
            queue.popleft()
            self.context.stats.finished(exchange, 0)
        return True

    def response_begins(self, correlation_id: int) -> bool:
        """Match a response to its exchange; opaque ones whose turn it is stream through."""
        if not self._expected:
            raise StreamError(f"a response (correlation id {correlation_id}) that nothing asked for")
        exchange = self._expected.popleft()
        if exchange.correlation_id != correlation_id:
            raise StreamError(f"correlation id {correlation_id} where {exchange.correlation_id} was due")
        self._current = exchange
        return exchange.transform is not None or not self._sequencer.is_head(exchange)

    def response_passed(self, data: Buffer) -> None:
        """Opaque response bytes whose turn it is."""
        self._client.write(data)

    def response_ended(self) -> None:
        """An opaque response has left: later ones that waited on it follow."""
        exchange = self._current
        if exchange is not None:
            self.context.stats.finished(exchange, 0)
        ready = self._sequencer.finish_head()
        if ready:
            self._client.writelines(ready)
        if self._draining:
            self._close_if_drained()

    def response_collected(self, frame: memoryview) -> None:
        """A whole response: transform it, or keep it until its turn."""
        exchange = self._current
        if exchange is None:
            return
        if exchange.transform is None:
            self.answer(exchange, b"".join((_SIZE.pack(len(frame)), frame)))
            return
        response = exchange.transform(frame)
        if response is not None and not exchange.internal:
            self.answer(exchange, response)

    # -- connections ---------------------------------------------------------------------------------------

    def client_connected(self, wire: Connected, host: str) -> None:
        """The client is there, on `host`: connect to its target broker."""
        self.host = host
        self._client = wire
        self.context.session_opened(self)

    def upstream_connected(self, wire: Connected) -> None:
        """The target broker is connected: start with what the client has sent meanwhile."""
        if self.closed:
            wire.close()
            return
        self._upstream = wire
        if isinstance(wire, Wire) and isinstance(self._client, Wire):
            self._client.splice_to(wire, self._requests)
            wire.splice_to(self._client, self._responses)
        self.resume()

    def pause_upstream(self, paused: bool) -> None:
        """The client reads slowly: read its broker slowly."""
        if self._upstream is not None and not self.closed:
            (self._upstream.pause_reading if paused else self._upstream.resume_reading)()

    def pause_client(self, paused: bool) -> None:
        """The broker reads slowly: read the client slowly."""
        if paused:
            self._pause_reading("broker")
        else:
            self._resume_reading("broker")

    def _pause_reading(self, why: str) -> None:
        if not self._paused_for and not self.closed:
            self._client.pause_reading()
        self._paused_for.add(why)

    def _resume_reading(self, why: str) -> None:
        if why in self._paused_for:
            self._paused_for.discard(why)
            if not self._paused_for and not self.closed:
                self._client.resume_reading()

    def _close_if_drained(self) -> None:
        if not len(self._sequencer) and not self.closed:
            self.close("shutdown")


def _acks_of(head: memoryview, api_version: int) -> int | None:
    """`acks` of a Produce whose frame begins with `head`; None when more of it must arrive first."""
    try:
        header = peek_request_header(head)
    except IncompleteFrame:
        return None
    return produce_acks(head[header.body_offset :], api_version)
