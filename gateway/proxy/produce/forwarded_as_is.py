"""A forwarded Produce in the common case, in one piece: the source gets the client's bytes, the client the source's.

All of the request is for one topic and one leader, outside of a transaction, and nothing is under way that it would
have to wait for. Whatever is otherwise goes the long way (`handlers/produce.py`, `forwarded_produce.py`), which asks
the same questions, and is made for any number of topics, leaders and clusters: it takes several times as long, and has
a dozen objects wait with each request. What is not answered plainly takes the long way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.cutover.write_pause.rules.routing import RoutingTable, TopicRoute
from gateway.cutover.write_pause.rules.write_pause import WritePhase
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.connection import Connection
from gateway.proxy.produce.after_cutover import AfterCutover
from gateway.proxy.produce.authorization import is_known_to_write
from gateway.proxy.produce.forwarded_produce import (
    ALL_REPLICAS,
    ForwardedProduce,
    SourceWrite,
    SourceWrites,
    count_against_quota,
)
from gateway.proxy.produce.produce_plan import ProducePlan, record_count
from gateway.proxy.rules.leader_order import Leader
from gateway.proxy.rules.own_names import is_own
from gateway.proxy.session.exchange import Exchange
from gateway.proxy.session.session import Session
from gateway.proxy.session.stats import ProxyStats
from gateway.state.ack import Ack
from protocol.apis import ApiKey
from protocol.produce import ProducePart, ProduceRequestView, scan_answer

LANES: Final = tuple(f"produce-{index}" for index in range(8))
"""Connections per source broker; a client keeps to one, so that its requests stay in order."""

_PRODUCE = int(ApiKey.PRODUCE)
_FORWARD = WritePhase.FORWARD  # looked up once: an attribute of an enum costs as much as a call
_BOTH = Ack.BOTH


class ForwardsAsIs:
    """One per gateway."""

    def __init__(
        self, writes: SourceWrites, routing: RoutingTable, stats: ProxyStats, after_cutover: AfterCutover
    ) -> None:
        self._writes = writes
        self._routing = routing
        self._stats = stats
        self._after_cutover = after_cutover

    def sends(self, session: Session, exchange: Exchange, view: ProduceRequestView, body: memoryview) -> bool:
        """Send the request, with its body, to its source if it is of the common case. False: nothing was done."""
        parts = view.parts
        if not parts or not view.acks or view.transactional_id is not None or session.pipeline:
            return False
        topic, writes = parts[0].topic, self._writes
        route = self._routing.current.topics.get(topic)
        if route is None or not route.is_plain or is_own(topic):
            return False
        source = writes.sources.get(route.link)
        if source is None or route.pause.goes(writes.may_write()) is not _FORWARD:
            return False
        leader = source.leader(topic, parts[0].partition) if len(parts) == 1 else _leader_of_all(source, parts)
        if leader is None:
            return False
        if not (
            session.order.is_settled(route.link, source.view)
            and self._after_cutover.is_over
            and is_known_to_write(session, topic)
        ):
            return False
        connection = source.cached_for(session.principal, leader, LANES[session.id % len(LANES)])
        if connection is None or connection.rest.active or connection.version(_PRODUCE) < exchange.api_version:
            return False
        if writes.quotas.is_limited:
            size = sum(part.end - part.start for part in parts)
            count_against_quota(writes, session, exchange, size, view.acks)
        self._stats.forwarded += 1
        writes.forwarder.begin((topic,))
        key = route.link, leader
        write = _Write(writes, session, exchange, view, body, route, key, session.order.sent(key, parts), connection)
        connection.collect_in(session.context.wires)
        connection.send(_PRODUCE, exchange.api_version, (body,), write)
        if connection.write_paused:
            session.stall()
            connection.when_writable(session.resume)
        return True


def _leader_of_all(source: Cluster, parts: Sequence[ProducePart]) -> int | None:
    """Who leads the parts; None: not one broker, not one topic, or it is not known."""
    topic = parts[0].topic
    partitions = [part.partition for part in parts if part.topic == topic]
    return source.leader_of_all(topic, partitions) if len(partitions) == len(parts) else None


class _Write:
    """One request on its way. Called with the body of the answer, or None when there will be none."""

    __slots__ = ("_body", "_connection", "_exchange", "_leader", "_route", "_sent", "_session", "_view", "_writes")

    def __init__(
        self,
        writes: SourceWrites,
        session: Session,
        exchange: Exchange,
        view: ProduceRequestView,
        body: memoryview,
        route: TopicRoute,
        leader: Leader,
        sent: int,
        connection: Connection,
    ) -> None:
        self._writes = writes
        self._session = session
        self._exchange = exchange
        self._view = view
        self._body = body
        self._route = route
        self._leader = leader
        self._sent = sent
        self._connection = connection

    def __call__(self, body: memoryview | None) -> None:
        writes, exchange, route = self._writes, self._exchange, self._route
        if body is None or route.ack is _BOTH or not writes.lease_valid():
            self._answered(body)
            return
        results, throttle_ms = scan_answer(body, exchange.api_version)
        for result in results:
            if result.error_code:
                self._answered(body)
                return
        if throttle_ms or self._connection.rest.active:
            writes.rests.told(route.link, self._connection, throttle_ms)
        if self._connection.in_burst:
            self._session.context.wires.collect_until(self._connection.after_responses)
        topic, request = route.mirror_topic, self._body
        writes.forwarder.end((topic,), unknown=False)
        counts = {part.partition: record_count(request, part.start, part.end) for part in self._view.parts}
        for result in results:
            records = counts.get(result.partition, 0)
            writes.on_forwarded(topic, result.partition, result.base_offset, records)
            if self._view.acks == ALL_REPLICAS and result.base_offset >= 0:
                writes.forwarder.acknowledged(topic, result.partition, result.base_offset + records)
        exchange.reply(body)
        self._session.order.ended(self._sent)

    def _answered(self, body: memoryview | None) -> None:
        """The long way back."""
        exchange, route, parts = self._exchange, self._route, self._view.parts
        plan = ProducePlan(source={self._leader: list(parts)}, routes={route.mirror_topic: route})
        topics = (route.mirror_topic,)
        write = SourceWrite(
            self._leader, exchange.api_version, parts, topics, self._sent, as_is=True, connection=self._connection
        )
        if body is not None and self._connection.in_burst:
            self._session.context.wires.collect_until(self._connection.after_responses)
        ForwardedProduce(self._writes, self._session, exchange, self._view, plan).answered(write, body)
