"""One Produce request with parts for a source, perhaps for several of its brokers and for the target, too.

Sends every part, gathers the answers, and replies once. In the common case (all parts on one source leader, same
version) it sends the client's body and relays the source's body unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import NamedTuple

from gateway.cutover.write_pause.rules.routing import TopicRoute
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.connection import Connection
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.rules.progress import MirrorProgress
from gateway.proxy.produce.counted_writes import count_until_answered
from gateway.proxy.produce.forwarder import Forwarder
from gateway.proxy.produce.produce_plan import ProducePlan, batches_of, record_count
from gateway.proxy.rules.write_quotas import WriteQuotas
from gateway.proxy.session.exchange import Exchange
from gateway.proxy.session.session import LEASE_OVER, Session
from gateway.proxy.session.source_rests import SourceRests
from gateway.proxy.transactions.transactions import Transactions
from gateway.state.ack import Ack
from gateway.state.producer_ids import in_failback_epoch, is_gateway_issued
from protocol.apis import ApiKey
from protocol.batch.header import producer_id_of, with_producer_id
from protocol.errors import ErrorCode, is_retriable
from protocol.header import frame_response, response_body_offset
from protocol.patch import with_produce_throttle
from protocol.produce import (
    PartitionResult,
    ProducePart,
    ProduceRequestView,
    build_request_body,
    build_response_body,
    scan_answer,
    scan_response,
    set_acks,
)
from protocol.wire import Buffer

_PRODUCE = int(ApiKey.PRODUCE)
ALL_REPLICAS = -1
"""`acks=all`: a change of leader does not lose such a write."""
_NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_MOVED = frozenset({_NOT_LEADER, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), int(ErrorCode.LEADER_NOT_AVAILABLE)})
_CUT_OFF = frozenset({int(ErrorCode.REQUEST_TIMED_OUT), int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)})
"""The leader does not reach its replicas: perhaps another broker leads by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceWrites:
    """Shared by all forwarded requests, built once.

    `sources`: by link. `on_forwarded`: (mirror topic, partition, base offset, records) committed by the source.
    `may_write`, `lease_valid`: whether a write may be sent, and its answer passed on, now (`fleet/rules/leases.py`); a
    write leaves only if it still may. `clock`: monotonic seconds.
    `quotas`: of writes to sources. `rests`: throttle times of the sources' own quotas. `unanswered`: called with writes
    that will come again: their connection broke, or a failover has left them behind.
    """

    forwarder: Forwarder
    sources: Mapping[str, Cluster]
    progress: MirrorProgress
    transactions: Transactions
    on_forwarded: Callable[[str, int, int, int], None]
    may_write: Callable[[], bool]
    lease_valid: Callable[[], bool]
    clock: Callable[[], float]
    quotas: WriteQuotas
    rests: SourceRests
    unanswered: Callable[[Buffer, Sequence[ProducePart]], None]
    loop: asyncio.AbstractEventLoop


class SourceWrite(NamedTuple):
    """A write sent to a source leader. `sent`: its number in `LeaderOrder`. `as_is`: the client's own bytes."""

    leader: tuple[str, int]
    version: int
    parts: Sequence[ProducePart]
    topics: Sequence[str]
    sent: int
    as_is: bool
    connection: Connection


def count_against_quota(writes: SourceWrites, session: Session, exchange: Exchange, size: int, acks: int) -> None:
    """Count a write against its client's quota. Beyond it the client is answered as usual, told the throttle time, and
    not read for that long."""
    seconds = writes.quotas.spend(session.principal or session.host, size, writes.clock())
    if not seconds:
        return
    session.throttle(seconds)
    if acks != 0:
        tell_throttled(exchange, ceil(seconds * 1000))


def tell_throttled(exchange: Exchange, throttle_ms: int) -> None:
    """Set at least this throttle time in the client's answer, as a broker would."""
    before, version = exchange.edit, exchange.api_version

    def edited(response: Buffer) -> Buffer:
        return with_produce_throttle(version, response if before is None else before(response), throttle_ms)

    exchange.edit = edited


class ForwardedProduce:
    """The state of one forwarded request: the answers to come, and the results so far."""

    __slots__ = ("_acks", "_body", "_exchange", "_pending", "_plan", "_results", "_session", "_view", "_writes")

    def __init__(
        self,
        writes: SourceWrites,
        session: Session,
        exchange: Exchange,
        view: ProduceRequestView,
        plan: ProducePlan,
    ) -> None:
        self._writes = writes
        self._session = session
        self._exchange = exchange
        self._view = view
        self._plan = plan
        self._body = exchange.body
        self._acks = view.acks or 1  # acks=0 is sent as acks=1, so that the gateway knows what is in flight
        self._pending = 0
        self._results: list[PartitionResult] = []

    def send(self, connections: dict[tuple[str, int], Connection], refused: Sequence[PartitionResult] = ()) -> None:
        """Send all parts. `connections` has one for every (link, leader) of the plan; `refused`: results to add."""
        plan = self._plan
        if plan.source:
            size = sum(part.end - part.start for parts in plan.source.values() for part in parts)
            count_against_quota(self._writes, self._session, self._exchange, size, self._view.acks)
        self._results.extend(refused)
        self._pending = len(plan.source) + bool(plan.target)
        whole = len(plan.source) == 1 and not plan.target and not refused
        for key, parts in plan.source.items():
            self._send_source(connections[key], key, parts, whole=whole)
        if plan.target:
            self._send_target(plan.target)
        if self._view.acks == 0:
            self._exchange.drop()
        if not self._pending:
            self._finish()

    def _send_source(
        self, connection: Connection, key: tuple[str, int], parts: list[ProducePart], *, whole: bool
    ) -> None:
        version = min(self._exchange.api_version, connection.version(_PRODUCE))
        topics = sorted({part.topic for part in parts})
        as_is = (
            whole
            and version == self._exchange.api_version
            and all(self._goes_as_is(self._plan.routes[topic]) for topic in topics)
            and (self._plan.write is None or self._plan.write.is_own)
        )
        if as_is:
            pieces: Sequence[Buffer] = (self._body,)
            if self._view.acks == 0:
                body = bytearray(self._body)
                set_acks(body, version, 1)
                pieces = (body,)
        else:
            pieces = self._build(version, parts, source_names=True)
        self._writes.forwarder.begin(topics)
        produced = self._produce_of_transaction()
        write = SourceWrite(key, version, parts, topics, self._session.order.sent(key, parts), as_is, connection)

        def answered(body: memoryview | None) -> None:
            if body is not None and connection.in_burst:
                self._session.context.wires.collect_until(connection.after_responses)
            produced()
            self.answered(write, body)

        connection.collect_in(self._session.context.wires)
        connection.send(_PRODUCE, version, pieces, answered)

    def answered(self, write: SourceWrite, body: memoryview | None) -> None:
        """The source's answer to a write; None: the connection was lost before."""
        known = body is not None and self._writes.lease_valid()
        self._writes.forwarder.end(write.topics, unknown=not known)
        if body is None:
            self._writes.unanswered(self._body, write.parts)
            self._session.close("source connection lost: the outcome of a produce is unknown")
            return
        if not known:
            self._session.close(LEASE_OVER)
            return
        self._take_results(write, body)
        self._session.order.ended(write.sent)

    def _take_results(self, write: SourceWrite, body: memoryview) -> None:
        results, throttle_ms = scan_answer(body, write.version)
        clean = True
        if throttle_ms or write.connection.rest.active:
            self._throttled(write, throttle_ms)
        writes, parts = self._writes, write.parts
        names = {self._plan.routes[part.topic].source_topic: part.topic for part in parts}
        counts = {(part.topic, part.partition): record_count(self._body, part.start, part.end) for part in parts}
        for result in results:
            topic = names.get(result.topic, result.topic)
            if result.error_code:
                clean = False
                if is_retriable(result.error_code):
                    self._refused(parts, topic, result.partition)
                if result.error_code in _MOVED or result.error_code in _CUT_OFF:
                    writes.sources[write.leader[0]].invalidate(result.topic)
            else:
                records = counts.get((topic, result.partition), 0)
                writes.on_forwarded(topic, result.partition, result.base_offset, records)
                if self._acks == ALL_REPLICAS and result.base_offset >= 0:
                    writes.forwarder.acknowledged(topic, result.partition, result.base_offset + records)
            self._results.append(result._replace(topic=topic))
        waits = [r for r in self._results if not r.error_code and self._acked_by_both(r.topic)]
        if waits and self._view.acks != 0:
            self._await_mirror(waits, counts, parts)
        elif write.as_is and clean and self._view.acks != 0:
            self._exchange.reply(body)
        else:
            self._part_done()

    def _throttled(self, write: SourceWrite, throttle_ms: int) -> None:
        """Pass the source's throttle time on to the client, as if the source had answered it directly."""
        self._writes.rests.told(write.leader[0], write.connection, throttle_ms)
        if throttle_ms > 0 and self._view.acks != 0:
            tell_throttled(self._exchange, throttle_ms)

    def _refused(self, parts: Sequence[ProducePart], topic: str, partition: int) -> None:
        session = self._session
        failed = [part for part in parts if part.topic == topic and part.partition == partition]
        session.pipeline.refused(batches_of(self._body, failed), self._writes.clock())

    def _acked_by_both(self, topic: str) -> bool:
        route: TopicRoute | None = self._plan.routes.get(topic)
        return route is not None and route.ack is Ack.BOTH

    def _await_mirror(
        self, waits: list[PartitionResult], counts: dict[TopicPartition, int], parts: Sequence[ProducePart]
    ) -> None:
        """Answer once the target has the records, too; or with REQUEST_TIMED_OUT after the request's own timeout, or
        when a failover has left them behind."""
        left = {(result.topic, result.partition) for result in waits}
        late = set[TopicPartition]()
        timer = self._writes.loop.call_later(self._view.timeout_ms / 1000, lambda: timed_out())  # noqa: PLW0108 - defined below

        def ended(key: TopicPartition, *, mirrored: bool) -> None:
            if timer.cancelled():
                return
            left.discard(key)
            if not mirrored:
                late.add(key)
                self._comes_again(parts, key)
            if not left:
                answer()

        def timed_out() -> None:
            late.update(left)
            answer()

        def answer() -> None:
            timer.cancel()
            self._results = [
                r._replace(error_code=int(ErrorCode.REQUEST_TIMED_OUT), base_offset=-1)
                if (r.topic, r.partition) in late
                else r
                for r in self._results
            ]
            self._part_done()

        for result in waits:
            key = (result.topic, result.partition)
            end = result.base_offset + counts.get(key, 0)
            self._writes.progress.when(
                *key, end, partial(ended, key, mirrored=True), partial(ended, key, mirrored=False)
            )

    def _comes_again(self, parts: Sequence[ProducePart], key: TopicPartition) -> None:
        """The source has a batch that the newly written cluster lacks: the producer's later batches wait until it has
        come again."""
        self._refused(parts, *key)
        self._writes.unanswered(self._body, [part for part in parts if (part.topic, part.partition) == key])

    def _produce_of_transaction(self) -> Callable[[], None]:
        """Count a transaction's Produce as in flight. Returns the function to call when it is over."""
        write = self._plan.write
        if write is None:
            return lambda: None
        write.producer.produce(write.side)

        def produced() -> None:
            write.producer.produced()
            self._writes.transactions.changed()

        return produced

    def _send_target(self, parts: list[ProducePart]) -> None:
        version = self._exchange.api_version
        pieces = self._build(version, parts, source_names=False)
        exchange = Exchange(self._session, _PRODUCE, version, self._exchange.correlation_id, self._exchange.started)
        exchange.frame, exchange.body_offset = self._exchange.frame, self._exchange.body_offset
        exchange.internal = True
        routes = self._plan.routes
        counted = {part.topic for part in parts if part.topic in routes and routes[part.topic].counted}
        ended = count_until_answered(self._session, self._writes.forwarder, counted) if counted else None
        produced = self._produce_of_transaction()
        self._session.on_close.append(produced)

        def answered(frame: memoryview) -> None:
            if counted and not self._writes.lease_valid():
                self._session.close(LEASE_OVER)  # this counts it as unknown
                return
            self._session.on_close.remove(produced)
            produced()
            if ended is not None:
                ended()
            self._results.extend(scan_response(frame[response_body_offset(_PRODUCE, version, frame) :], version))
            self._part_done()

        exchange.forward_body(b"".join(pieces), answered)

    def _build(self, version: int, parts: list[ProducePart], *, source_names: bool) -> list[Buffer]:
        topics: dict[str, list[tuple[int, Buffer]]] = {}
        for part in parts:
            name = self._plan.routes[part.topic].source_topic if source_names else part.topic
            topics.setdefault(name, []).append((part.partition, self._records(part)))
        view, write = self._view, self._plan.write
        transactional_id = view.transactional_id if write is None else write.transactional_id
        return build_request_body(version, transactional_id, self._acks, view.timeout_ms, topics)

    def _records(self, part: ProducePart) -> Buffer:
        """The part's batch, under its producer's id in the topic's failback epoch."""
        records = self._body[part.start : part.end]
        if self._plan.write is not None:
            return self._plan.write.records(records)
        route = self._plan.routes.get(part.topic)
        if route is None or not route.failback_epoch:
            return records
        producer_id = producer_id_of(records)
        if not is_gateway_issued(producer_id):
            return records
        return with_producer_id(records, in_failback_epoch(producer_id, route.failback_epoch))

    @staticmethod
    def _goes_as_is(route: TopicRoute) -> bool:
        return route.source_topic == route.mirror_topic and not route.failback_epoch

    def _part_done(self) -> None:
        self._pending -= 1
        if self._pending <= 0:
            self._finish()

    def _finish(self) -> None:
        if self._plan.on_results is not None:
            self._plan.on_results(self._results)
        if self._view.acks == 0:
            failed = next((r for r in self._results if r.error_code), None)
            if failed is not None:  # as a broker does: there is no other way to tell the client
                self._session.close(f"acks=0 produce failed: {failed.topic}-{failed.partition}: {failed.error_code}")
            return
        exchange = self._exchange
        body = build_response_body(exchange.api_version, self._results)
        exchange.reply_framed(frame_response(_PRODUCE, exchange.api_version, exchange.correlation_id, body))
