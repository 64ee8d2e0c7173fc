"""The bytes of a session's client: opaque requests pass, intercepted ones are collected for their handlers.

What arrives while a handler holds the connection waits in a backlog, and from a size on in the client's socket.
"""

from __future__ import annotations

from collections import deque

import structlog

from gateway.groups.gate.rules.gates import named
from gateway.proxy.rules.held_answers import LARGE
from gateway.proxy.rules.loop_shares import METERED, most_cost
from gateway.proxy.rules.own_names import PREFIX, is_own
from gateway.proxy.session.exchange import Exchange
from gateway.proxy.session.session import MOST_UNANSWERED, Session, SessionContext
from gateway.proxy.session.streams import (
    MIN_REQUEST_BYTES,
    REQUEST_HEAD,
    REQUEST_HEAD_BYTES,
    RequestStream,
    StreamError,
)
from gateway.transport.wire import SPLICE_BYTES
from protocol.apis import APIS, ApiKey, is_supported
from protocol.errors import ProtocolError
from protocol.header import peek_request_header
from protocol.peek import acks_without, fetches_others, plain_topic
from protocol.wire import Buffer

_log = structlog.get_logger("lockgate.proxy")
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_PRODUCE = int(ApiKey.PRODUCE)
_FETCH = int(ApiKey.FETCH)
_PREFIX = PREFIX.encode()
SUPPORTED = frozenset(
    int(key) << 16 | version
    for key, api in APIS.items()
    for version in range(api.min_version, api.max_version + 1)
    if is_supported(key, version)
)
_ANSWERED = (-1, 1)  # acks
_ACKS = (*_ANSWERED, 0)
_UNLOOKED = 15  # requests that pass, and Produces, between two looks at the clock
BACKLOG_BYTES = 262_144  # read ahead of a stalled connection, so that its end is noticed; then reading pauses


class FromClient(Session):
    """Takes what the client sends. It is the sink of its request stream."""

    def __init__(self, context: SessionContext, node_id: int | None) -> None:
        super().__init__(context, node_id)
        self._requests = RequestStream(self, context.max_request_bytes)
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._feeding = False
        self._unlooked = 0
        self._read_at = self._fed_at = self.last_active
        self._held = self._held_frames = 0  # bytes: in all; of whole requests that are unanswered

    def client_data(self, data: Buffer) -> None:
        """Bytes arrived from the client. They change after the call."""
        if self._stalled or self._backlog:
            self._backlog.append(bytes(data))
            self._backlog_bytes += len(data)
            if self._backlog_bytes > BACKLOG_BYTES or (self._begun and self._memory is self.context.unproven):
                self._pause_reading("backlog")
            self._account()
            if not self._begun and not self.closed:
                self._look_at_first()
        elif self._requests.busy or self._requests.collects or not self._pass_request(data, len(data)):
            self._feed(data)

    def _look_at_first(self) -> None:
        """A connection to a broker costs the broker something, too: it is for who has begun a request of Kafka's."""
        head = b"".join(self._backlog)
        if len(head) < REQUEST_HEAD_BYTES:
            return
        size, api_key, api_version, _ = REQUEST_HEAD.unpack_from(head)
        if not MIN_REQUEST_BYTES <= size <= self.context.max_request_bytes:
            self.close(f"bad request: {size} bytes")
        elif api_key << 16 | api_version not in SUPPORTED and api_key != _API_VERSIONS:
            self.close(f"bad request: api key {api_key} version {api_version} is not supported")
        else:
            if self._memory is self.context.unproven:
                self._pause_reading("backlog")
            self._begin()

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
        if size + 4 < have or size > self.passes_bytes or api_key << 16 | api_version not in SUPPORTED:
            return False
        handler = context.handlers[api_key]
        if handler is not None and handler.intercepts(self):
            if not self._is_plain(api_key, api_version, data, 12):
                return False
        elif api_key == _PRODUCE:
            if acks_without(_PREFIX, data, size + 4, api_version, 12) not in _ANSWERED:
                return False
        elif api_key == _FETCH and not fetches_others(_PREFIX, context.own_names.ids, data, size + 4, api_version, 12):
            return False
        if upstream is None or len(self._sequencer.queue) >= MOST_UNANSWERED:
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
        clock = self.context.clock
        self._read_at = self._fed_at = clock()
        self._feeding = True
        self.context.wires.collect()
        try:
            rest = self._requests.feed(data)
            if rest is not None and not self.closed:
                self._backlog.appendleft(bytes(rest))
                self._backlog_bytes += len(rest)
        except (StreamError, ProtocolError) as error:
            self.close(f"bad request: {error}")
        except Exception as error:  # noqa: BLE001 - a bug of ours must stay in this connection
            _log.exception("request handling failed", session=self.id, client_id=self.client_id)
            self.close(f"internal error: {error!r}")
        finally:
            self._feeding = False
            self._account()
            self.context.wires.flush()
            self.context.shares.spend(self.share, clock() - self._fed_at)

    def _account(self) -> None:
        """Tell how much is held, when that has changed."""
        requests = self._requests
        held = requests.held + self._backlog_bytes + self._held_frames
        if held != self._held and not self.closed:
            self._held = held
            self._memory.holds(self, held, unfinished=requests.collecting)

    def login_changed(self) -> None:
        """See `Session.login_changed`. Who has logged in once is no stranger any more, also when it has to again."""
        super().login_changed()
        held = self.context.held
        if self.login.accepted and self._memory is not held:
            self._memory.ended(self)
            self._memory = held
            held.holds(self, self._held, unfinished=self._requests.collecting)
            self._client.trusted()

    def close(self, reason: str) -> None:
        """See `Session.close`. What nobody will look at any more is not kept until garbage is collected next: a session
        and its requests know each other, and a gateway collects seldom."""
        super().close(reason)
        self._backlog.clear()
        self._requests.forget()

    def _let_go(self) -> None:
        """See `Session._let_go`."""
        super()._let_go()
        self._requests.end()

    def release(self, exchange: Exchange) -> None:
        """See `Session.release`."""
        if exchange.held:
            self._held_frames -= exchange.held
            exchange.held = 0
            if not self._feeding:
                self._account()

    def resume(self) -> None:
        """Go on with what has arrived meanwhile."""
        self._stalled = False
        if not self._feeding:
            self._work_off_backlog()

    def look_again(self) -> None:
        """See `Session.look_again`: the stream has kept the head."""
        self._backlog.appendleft(b"")
        self.again(lambda: None)

    def _work_off_backlog(self) -> None:
        while self._backlog and not self._stalled and not self._muted_for and not self.closed:
            data = self._backlog.popleft()
            self._backlog_bytes -= len(data)
            self._feed(data)
        if not self._backlog:
            self._resume_reading("backlog")

    def begin(self, api_key: int, api_version: int, correlation_id: int, size: int, head: memoryview) -> bool | None:
        """A request's header: decide between passing its bytes on and collecting it."""
        if api_key << 16 | api_version not in SUPPORTED and api_key != _API_VERSIONS:
            raise StreamError(f"api key {api_key} version {api_version} is not supported")
        if self._has_to_wait(api_key):
            return None
        if not self.login.accepted and not self.login.takes(api_key, size):
            return None
        handler = self.target_down or self.context.handlers[api_key]
        acks: int | None = -1
        if handler is not None and handler.intercepts(self):
            passes = self._is_plain(api_key, api_version, head, 8)
        elif api_key == _PRODUCE:
            acks = acks_without(_PREFIX, head, size, api_version, 8)
            passes = acks in _ACKS
        else:
            ids = self.context.own_names.ids
            passes = api_key != _FETCH or fetches_others(_PREFIX, ids, head, size, api_version, 8)
        if passes and acks == 0:
            self.last_active = self._read_at
            self.context.stats.unanswered(api_key, size)
            return False
        self.last_active = self._read_at
        exchange = Exchange(self, api_key, api_version, correlation_id, self._read_at)
        self._sequencer.begin(exchange)
        self.context.stats.began(api_key, size)
        if passes:
            self._expected.append(exchange)
        return not passes

    def _has_to_wait(self, api_key: int) -> bool:
        """For answers to others, for the client's next slice, until it has paid back what it owes, or for room."""
        share, shares, queue = self.share, self.context.shares, self._sequencer.queue
        if len(queue) >= MOST_UNANSWERED:
            self._full = True
        elif shares.is_over(share, self._read_at - self._fed_at):
            shares.wait(share, self._go_on)
        elif api_key in METERED and not share.may_meter(self._read_at):
            shares.rest(share, self._go_on)
        elif share.unread and api_key in METERED and not self.context.answers.has_room(share, LARGE):
            self.context.answers.wait(self, LARGE, lambda: shares.wait(share, self._go_on))
        else:
            self._unlooked += 1
            if self._unlooked > _UNLOOKED:
                self._look_at_clock()
            return False
        self._stalled = True
        self._pause_reading("share")
        return True

    def _look_at_clock(self) -> float:
        """Seconds since the last time."""
        before, self._read_at, self._unlooked = self._read_at, self.context.clock(), 0
        return self._read_at - before

    def _go_on(self) -> None:
        if "share" in self._paused_for and not self.closed:
            self._resume_reading("share")
            self.look_again()

    def _is_plain(self, api_key: int, api_version: int, head: Buffer, at: int) -> bool:
        """A Produce of one topic that is none of the mirror's, outside of a transaction: it need not be collected."""
        if api_key != _PRODUCE or self.target_down or self.pipeline:
            return False
        topic = plain_topic(head, api_version, at)
        if topic is None or is_own(topic):
            return False
        return self.context.routing.current.passes(topic) and self.context.passes_writes()

    def passed(self, data: Buffer) -> None:
        """Opaque request bytes go on as they are."""
        if self._upstream is not None:
            self._upstream.write(data)

    def collected(self, frame: memoryview) -> bool:
        """A whole intercepted request goes to its handler."""
        exchange = self._sequencer.queue[-1]
        header = peek_request_header(frame)
        exchange.frame = frame
        exchange.held = len(frame)
        self._held_frames += len(frame)
        exchange.client_id = client_id = header.client_id
        self.client_id = client_id if client_id is None else named(client_id)
        exchange.body_offset = header.body_offset
        handler = self.target_down or self.context.handlers[exchange.api_key]
        if handler is None:  # what it wanted has passed while the frame was collected
            exchange.forward()
        else:
            handler.handle(self, exchange)
        if exchange.api_key != _PRODUCE:
            took = self._look_at_clock()
            if exchange.api_key in METERED:
                self.share.meter(min(took, most_cost(len(frame))), self._read_at)
        return not self._stalled and not self._muted_for and not self.closed
