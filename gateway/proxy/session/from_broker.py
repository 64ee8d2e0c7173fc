"""The bytes of a session's own connection to the target broker: each response leaves in the order of the requests.

A response that is opaque and whose turn it is passes as it arrives; others are collected, and transformed or kept.
"""

from __future__ import annotations

import structlog

from gateway.proxy.rules.held_answers import LARGE
from gateway.proxy.rules.loop_shares import METERED, most_cost
from gateway.proxy.session.exchange import Exchange
from gateway.proxy.session.session import LEASE_OVER, Session, SessionContext
from gateway.proxy.session.streams import RESPONSE_HEAD, ResponseStream, StreamError
from gateway.transport.wire import SPLICE_BYTES
from protocol.apis import ApiKey
from protocol.errors import ProtocolError
from protocol.framing import framed
from protocol.wire import Buffer

_log = structlog.get_logger("lockgate.proxy")
_PRODUCE = int(ApiKey.PRODUCE)


class FromBroker(Session):
    """Takes what the target broker sends. It is the sink of its response stream."""

    def __init__(self, context: SessionContext, node_id: int | None) -> None:
        super().__init__(context, node_id)
        self._responses = ResponseStream(self)
        self._current: Exchange | None = None  # the upstream response being received
        self._unwatched = False  # its beginning is to be looked at
        self._granted = 0  # bytes that are kept free for the next answer
        self._awaits_room = False  # the next answer is read when there is room for it
        self._taken_at = self._answered_at = 0.0

    def close(self, reason: str) -> None:
        """See `Session.close`, and `FromClient.close`."""
        super().close(reason)
        self._answers.clear()
        self._responses.forget()
        self._current = None

    def _let_go(self) -> None:
        """See `Session._let_go`."""
        super()._let_go()
        self._responses.end()

    def upstream_data(self, data: Buffer) -> None:
        """Bytes arrived from the target broker. They change after the call."""
        if self._answers:
            self._answers.append(bytes(data))
        elif self._responses.busy or not self._pass_response(data, len(data)):
            self._take(data)

    def _take(self, data: Buffer) -> bool:
        """False: the client's share of the loop is over, what is left waits for its next one."""
        shares, clock = self.context.shares, self.context.clock
        passes = self._responses.through >= len(data)
        if not passes and shares.is_over(self.share, 0.0):
            self._wait_with(data)
            return False
        self._taken_at = self._answered_at = clock()
        self.context.wires.collect()
        rest = None
        try:
            rest = self._responses.feed(data)
        except (StreamError, ProtocolError) as error:
            self.close(f"bad response from broker {self.node_id}: {error}")
        except Exception as error:  # noqa: BLE001 - a bug of ours must stay in this connection
            _log.exception("response handling failed", session=self.id, client_id=self.client_id)
            self.close(f"internal error: {error!r}")
        finally:
            self.context.wires.flush()
            if not passes:
                shares.spend(self.share, clock() - self._taken_at)
        if not rest:
            return True
        self._wait_with(rest)
        return False

    def _wait_with(self, data: Buffer) -> None:
        """The broker is not read meanwhile."""
        if not self.closed:
            self._answers.appendleft(bytes(data))
            self._mute_broker()
            if not self._awaits_room:
                self.context.shares.wait(self.share, self._take_waiting)

    def _take_waiting(self) -> None:
        while self._answers:
            if not self._take(self._answers.popleft()):
                return
        if not self.closed:
            self._mute_broker()

    def response_peeked(self, data: Buffer) -> bool:
        """See `Receiver.peeked`."""
        if self._responses.busy or self._answers or len(data) < 8:
            return False
        return RESPONSE_HEAD.unpack_from(data)[0] >= SPLICE_BYTES and self._pass_response(data, 0)

    def _pass_response(self, data: Buffer, have: int) -> bool:
        """The common case in one piece, as for requests: an opaque response whose turn it is, or its beginning."""
        expected, queue = self._expected, self._sequencer.queue
        if len(data) < 8 or not expected or len(expected) != len(queue):  # nobody waits for a response from elsewhere
            return False
        size, correlation_id = RESPONSE_HEAD.unpack_from(data)
        exchange = expected[0]
        if exchange.correlation_id != correlation_id or exchange.transform is not None or not 4 <= size >= have - 4:
            return False
        if queue[0] is not exchange or self._draining:
            return False
        if exchange.api_key == _PRODUCE and not self.context.passes_answers():
            return False
        if self.context.watch is not None:
            self.context.watch.look(self.client_id, exchange, data)
        expected.popleft()
        through = self._responses.through = size + 4 - have
        self._responses.collects = False
        if have:
            self._client.write(data)
        if through:
            self._current = exchange
        else:
            queue.popleft()
            self.context.stats.finished(exchange, 0)
            if self._full:
                self._look_at_unanswered()
        return True

    def response_begins(self, correlation_id: int, size: int) -> bool | None:
        """Match a response to its exchange; opaque ones whose turn it is stream through, others need room."""
        if not self._expected:
            raise StreamError(f"a response (correlation id {correlation_id}) that nothing asked for")
        exchange = self._expected[0]
        if exchange.correlation_id != correlation_id:
            raise StreamError(f"correlation id {correlation_id} where {exchange.correlation_id} was due")
        if exchange.api_key == _PRODUCE and exchange.transform is None and not self.context.passes_answers():
            exchange.transform = self._too_late
        collects = exchange.transform is not None or not self._sequencer.is_head(exchange)
        if collects and (size >= LARGE or self.share.unread) and not self._has_room(exchange, size):
            return None
        self._expected.popleft()
        self._current = exchange
        self._unwatched = not collects and self.context.watch is not None
        return collects

    def _has_room(self, exchange: Exchange, size: int) -> bool:
        """False: the answer is read on when there is room for it."""
        self._room -= exchange.room  # of an answer before
        exchange.room, self._granted = self._granted, 0
        if not exchange.room:
            if not self.context.answers.has_room(self.share, size):
                self._awaits_room = True
                self.context.answers.wait(self, size, lambda: self._room_is_there(size))
                self._count_unread()
                return False
            if size >= LARGE:
                exchange.room = size
                self._room += size
        self._count_unread()
        return True

    def _room_is_there(self, size: int) -> None:
        """For the next answer: it is read on in a slice of the client's."""
        self._awaits_room = False
        self._granted = size
        self._room += size
        self._count_unread()
        self.context.shares.wait(self.share, self._take_waiting)

    def _too_late(self, _frame: memoryview) -> None:
        self.close(LEASE_OVER)

    def response_passed(self, data: Buffer) -> None:
        """Opaque response bytes whose turn it is."""
        if self._unwatched:
            self._unwatched = False
            if self.context.watch is not None and self._current is not None:
                self.context.watch.look(self.client_id, self._current, data)
        self._client.write(data)

    def response_ended(self) -> None:
        """An opaque response has left: later ones that waited on it follow."""
        exchange = self._current
        if exchange is not None:
            self.context.stats.finished(exchange, 0)
        ready = self._sequencer.finish_head()
        if ready:
            self._client.writelines(ready)
        if self._muted_for:
            self._look_at_output()
        if self._full:
            self._look_at_unanswered()
        if self._draining:
            self._close_if_drained()

    def response_collected(self, frame: memoryview) -> bool:
        """A whole response: transform it, or keep it until its turn.

        One that came with the response by which the session ended is nobody's: whoever waited was told of the end.
        """
        exchange = self._current
        if exchange is None or self.closed:
            return True
        if exchange.transform is None:
            self.answer(exchange, framed(frame))
        else:
            response = exchange.transform(frame)
            if response is not None and not exchange.internal:
                self.answer(exchange, response)
        if exchange.internal and exchange.room:
            self._room -= exchange.room
            exchange.room = 0
            self._count_unread()
        began, self._answered_at = self._answered_at, self.context.clock()
        if exchange.api_key in METERED:
            self.share.meter(min(self._answered_at - began, most_cost(len(frame))), self._answered_at)
        return not self.context.shares.is_over(self.share, self._answered_at - self._taken_at)
