"""Produce: v3-9.

Behaviour:
* topics without a mirror go to the client's own target broker, untouched
* mirrored topics go to the source leader; a request that mixes both is split and its answer merged
* a paused topic holds the request (never refuses it), at most min(8 s, 80 % of the request's own timeout)
* batches after a refused one are refused until that one has come again (`proxy/rules/pipeline_guard.py`), and after a
  change of leader on the source no batch overtakes those in flight to the former leader
  (`proxy/rules/leader_order.py`)
* right after a cutover a producer must continue with its next batch, on any connection
  (`proxy/rules/cutover_order.py`)
* after a cutover, to the target or back to the source, a retry of a batch that the mirror has already copied is
  answered with its old offset
* a producer id is replaced by its id in the topic's failback epoch (`state/producer_ids.py`)
* while a source throttles a connection (KIP-219), nothing is sent on it: writes wait here, where a write pause need not
  wait for them; the client gets the throttle time
* while a topic is mirrored back to the source, writes to the target are counted until they are answered
* only writes of clients with WRITE on the target's topic are forwarded (asked on the client's own connection)
* without a valid lease (`fleet/rules/leases.py`) no write to a topic that is or was mirrored is forwarded, and no
  answer passed on: the topic may have cut over since the fleet last heard this gateway
* data of a transaction goes where the transaction lives, under the producer's identity there; a pause lets it pass

Version notes: v10+ may carry the target's own addresses (NodeEndpoints) in answers that pass untouched, v13+ names
topics by id: neither is advertised. A source's error answers are rebuilt, so its addresses are not passed on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import ceil

from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.kafka.connection.connection import Connection
from gateway.proxy.produce.after_cutover import AfterCutover
from gateway.proxy.produce.authorization import may_write
from gateway.proxy.produce.forwarded_as_is import LANES, ForwardsAsIs
from gateway.proxy.produce.forwarded_produce import ForwardedProduce, SourceWrites, tell_throttled
from gateway.proxy.produce.produce_plan import ProducePlan, batches_of, plan_produce
from gateway.proxy.produce.source_waits import await_source, find_connection, find_leader
from gateway.proxy.rules.leader_order import Leader
from gateway.proxy.rules.own_names import is_own
from gateway.proxy.rules.transactional_producers import TransactionalWrite
from gateway.proxy.session.exchange import Exchange
from gateway.proxy.session.session import Session
from gateway.proxy.session.stalled import hold
from gateway.proxy.session.stats import ProxyStats
from gateway.proxy.transactions.placement import TopicPlacements
from gateway.proxy.transactions.transactional_produce import concerns, find_write
from protocol.errors import ErrorCode
from protocol.framing import framed
from protocol.produce import PartitionResult, ProducePart, ProduceRequestView, scan_request

HOLD_S = 8.0
ANSWERS_S = 2.0
THROTTLED = "the source throttles writes: beyond the produce quota of the link's principal there"
NO_ANSWER = "the broker that led on the source before does not answer: the outcome of a produce is unknown"
OUT_OF_ORDER = "a batch of this producer from before the cutover has not come yet"


class ProduceHandler:
    """See the module's docstring."""

    def __init__(
        self,
        *,
        writes: SourceWrites,
        routing: RoutingTable,
        placements: TopicPlacements,
        stats: ProxyStats,
        passes_writes: Callable[[], bool],
        after_cutover: AfterCutover,
    ) -> None:
        self._writes = writes
        self._routing = routing
        self._placements = placements
        self._stats = stats
        self._passes_writes = passes_writes
        self._after_cutover = after_cutover
        self._retries = after_cutover.retries
        self._as_is = ForwardsAsIs(writes, routing, stats, after_cutover)

    def intercepts(self, session: Session) -> bool:
        # refused batches, and those after them, are checked when they come again
        looked_at = self._routing.current.intercepts_produce or bool(session.pipeline)
        return looked_at or not self._passes_writes()

    def handle(self, session: Session, exchange: Exchange) -> None:
        body = exchange.body
        view = scan_request(body, exchange.api_version, session.max_elements)
        if self._as_is.sends(session, exchange, view, body):
            return
        parts = view.parts
        code = _own_code(view)
        if code:
            self._refuse(session, exchange, view, parts, code, "it names what is the gateway's own")
            return
        if session.pipeline and not session.pipeline.admits(batches_of(exchange.body, parts), self._writes.clock()):
            self._refuse(
                session, exchange, view, parts, ErrorCode.NOT_ENOUGH_REPLICAS, "a batch before this one was refused"
            )
            return
        write = None
        if view.transactional_id is not None and parts and concerns(self._placements, self._routing.current, parts):
            write = self._find_write(session, exchange, view, parts)
            if write is None:
                return
        plan = plan_produce(parts, self._routing.current, self._leader_of, self._writes.may_write, write, self._lacks)
        if plan.paused is not None:
            self._hold(session, exchange, view, parts, plan.paused)
        elif plan.unleased:
            code = ErrorCode.NOT_ENOUGH_REPLICAS
            self._refuse(session, exchange, view, parts, code, "this gateway was not heard by its fleet for too long")
        elif plan.leaderless is not None:
            self._find_leader(session, exchange, view, parts, plan.leaderless)
        elif plan.source and session.order.overtakes(plan.source, self._view_of, self._leads):
            self._await_answers(session, exchange)
        else:
            self._send(session, exchange, view, parts, plan)

    def _send(
        self,
        session: Session,
        exchange: Exchange,
        view: ProduceRequestView,
        parts: list[ProducePart],
        plan: ProducePlan,
    ) -> None:
        answered = self._retries.answer(exchange.body, plan)
        if plan.missing:
            answered = [*answered, *self._not_there(session, exchange, plan)]
        if answered:  # only a client that may write a topic learns its offsets
            retried = {result.topic for result in answered}
            allowed = may_write(session, retried, lambda: session.again(lambda: self.handle(session, exchange)))
            if allowed is None:
                return
            answered = [result if result.topic in allowed else _denied(result) for result in answered]
        if view.transactional_id is None and not self._after_cutover.admits(session.id, exchange.body, plan):
            self._refuse(session, exchange, view, parts, ErrorCode.NOT_ENOUGH_REPLICAS, OUT_OF_ORDER)
            return
        send = self._to_source if plan.source else self._to_target
        send(session, exchange, view, plan, answered)

    def _find_write(
        self, session: Session, exchange: Exchange, view: ProduceRequestView, parts: list[ProducePart]
    ) -> TransactionalWrite | None:
        return find_write(
            self._writes.transactions,
            session,
            exchange,
            view.transactional_id or "",
            parts,
            again=lambda: self.handle(session, exchange),
            refuse=lambda code, message: self._refuse(session, exchange, view, parts, code, message),
        )

    def _leader_of(self, link: str, topic: str, partition: int) -> int | None:
        cluster = self._writes.sources.get(link)
        return None if cluster is None else cluster.leader(topic, partition)

    def _lacks(self, link: str, topic: str, partition: int) -> bool:
        cluster = self._writes.sources.get(link)
        known = None if cluster is None else cluster.view.topics.get(topic)
        return known is not None and bool(known.partitions) and partition not in known.partitions

    def _not_there(self, session: Session, exchange: Exchange, plan: ProducePlan) -> list[PartitionResult]:
        """Answer like a broker that does not host the partition. The request's other parts proceed: otherwise they
        would wait until the partition exists. The source may just have grown, so its metadata is refreshed."""
        for part in plan.missing:
            route = self._routing.current.topics[part.topic]
            plan.routes.setdefault(part.topic, route)
            self._writes.sources[route.link].invalidate(route.source_topic)
        session.pipeline.refused(batches_of(exchange.body, plan.missing), self._writes.clock())
        code, said = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "the source has no such partition yet"
        return [PartitionResult(part.topic, part.partition, code, -1, -1, -1, said) for part in plan.missing]

    def _view_of(self, link: str) -> object:
        cluster = self._writes.sources.get(link)
        return None if cluster is None else cluster.view

    def _leads(self, leader: Leader, topic: str, partition: int) -> bool:
        route = self._routing.current.topics.get(topic)
        return route is None or self._leader_of(leader[0], route.source_topic, partition) == leader[1]

    # -- to the target -------------------------------------------------------------------------------------

    def _to_target(
        self,
        session: Session,
        exchange: Exchange,
        view: ProduceRequestView,
        plan: ProducePlan,
        answered: list[PartitionResult],
    ) -> None:
        stamped = plan.write is not None and not plan.write.is_own
        looked_at = answered or stamped or plan.on_results is not None
        if looked_at or any(route.counted or route.failback_epoch for route in plan.routes.values()):
            ForwardedProduce(self._writes, session, exchange, view, plan).send({}, answered)
        elif view.acks == 0:
            session.send_unanswered(len(exchange.frame), (exchange.frame,))
            exchange.drop()
        else:
            exchange.forward(None if self._passes_writes() else framed)

    # -- to the source -------------------------------------------------------------------------------------

    def _to_source(
        self,
        session: Session,
        exchange: Exchange,
        view: ProduceRequestView,
        plan: ProducePlan,
        answered: list[PartitionResult],
    ) -> None:
        forwarded = {part.topic for parts in plan.source.values() for part in parts}
        allowed = may_write(session, forwarded, lambda: session.again(lambda: self.handle(session, exchange)))
        if allowed is None:
            return  # asked; handled again when the target has answered
        allowed = frozenset(topic for topic in allowed if plan.routes[topic].by_clients)
        refused = answered
        for key, parts in list(plan.source.items()):
            refused += [_denied(part) for part in parts if part.topic not in allowed]
            plan.source[key] = [part for part in parts if part.topic in allowed]
            if not plan.source[key]:
                del plan.source[key]
        lane = LANES[session.id % len(LANES)]
        connections: dict[tuple[str, int], Connection] = {}
        for key in plan.source:
            connection = self._writes.sources[key[0]].cached_for(session.principal, key[1], lane)
            if connection is None:
                self._connect(session, exchange, view, plan, key, lane)
                return
            if connection.rest.active and not connection.rest.may_send():
                self._rest(session, exchange, view, connection)
                return
            connections[key] = connection
        self._stats.forwarded += bool(connections)
        ForwardedProduce(self._writes, session, exchange, view, plan).send(connections, refused)
        for connection in connections.values():
            if connection.write_paused:
                session.stall()
                connection.when_writable(session.resume)

    def _connect(
        self,
        session: Session,
        exchange: Exchange,
        view: ProduceRequestView,
        plan: ProducePlan,
        key: tuple[str, int],
        lane: str,
    ) -> None:
        leads = [(plan.routes[part.topic].source_topic, part.partition) for part in plan.source[key]]
        source = self._writes.sources[key[0]]
        work = find_connection(source, session.principal, key[1], lane, leads)
        self._await_source(session, exchange, view, work, as_client=source.clients is not None)

    def _find_leader(
        self,
        session: Session,
        exchange: Exchange,
        view: ProduceRequestView,
        parts: list[ProducePart],
        what: tuple[str, str],
    ) -> None:
        link, topic = what
        cluster = self._writes.sources.get(link)
        if cluster is None:
            self._refuse(
                session, exchange, view, parts, ErrorCode.NOT_LEADER_OR_FOLLOWER, f"link {link} is not running"
            )
            return
        self._await_source(session, exchange, view, find_leader(cluster, topic, [part.partition for part in parts]))

    def _await_source(
        self,
        session: Session,
        exchange: Exchange,
        view: ProduceRequestView,
        work: Awaitable[None],
        *,
        as_client: bool = False,
    ) -> None:
        """`as_client`: the login is the client's own, so if it is refused a retry does not help."""

        def refuse(message: str, is_login: bool) -> None:
            parts = view.parts
            denied = as_client and is_login
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if denied else ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._refuse(session, exchange, view, parts, code, message)

        await_source(session, work, ready=lambda: self.handle(session, exchange), failed=refuse)

    # -- held or refused -----------------------------------------------------------------------------------

    def _hold(
        self, session: Session, exchange: Exchange, view: ProduceRequestView, parts: list[ProducePart], topic: str
    ) -> None:
        self._stats.held[topic] = self._stats.held.get(topic, 0) + 1
        if view.transactional_id is None:
            self._after_cutover.held(exchange.body, parts)
        code = ErrorCode.NOT_ENOUGH_REPLICAS  # retried by every client, refreshes no metadata
        pause = self._routing.current.topics[topic].pause
        waited = self._stats.stalls.began(topic, pause.in_force(), session.client_id or "", session.host)

        def register(release: Callable[[], None]) -> Callable[[], None]:
            leave = pause.wait(release)

            def left() -> None:
                waited()
                leave()

            return left

        hold(
            session,
            min(HOLD_S, 0.8 * view.timeout_ms / 1000),
            register,
            ready=lambda: self.handle(session, exchange),
            too_late=lambda: self._refuse(session, exchange, view, parts, code, f"{topic} is being promoted"),
        )

    def _rest(self, session: Session, exchange: Exchange, view: ProduceRequestView, connection: Connection) -> None:
        """Hold the request until the source accepts writes on the connection again."""

        def too_late() -> None:
            left_ms = ceil(connection.rest.left_s * 1000)
            if left_ms and view.acks != 0:
                tell_throttled(exchange, left_ms)
            self._refuse(session, exchange, view, view.parts, ErrorCode.NOT_ENOUGH_REPLICAS, THROTTLED)

        hold(
            session,
            min(HOLD_S, 0.8 * view.timeout_ms / 1000),
            connection.rest.when_may_send,
            ready=lambda: self.handle(session, exchange),
            too_late=too_late,
        )

    def _await_answers(self, session: Session, exchange: Exchange) -> None:
        """Hold the request until the former leader has answered the writes in flight to it, as a client would."""
        hold(
            session,
            ANSWERS_S,
            session.order.when_ended,
            ready=lambda: self.handle(session, exchange),
            too_late=lambda: session.close(NO_ANSWER),
        )

    def _refuse(
        self,
        session: Session,
        exchange: Exchange,
        view: ProduceRequestView,
        parts: list[ProducePart],
        code: ErrorCode,
        message: str,
    ) -> None:
        plan = ProducePlan()
        session.pipeline.refused(batches_of(exchange.body, parts), self._writes.clock())
        results = [PartitionResult(p.topic, p.partition, int(code), -1, -1, -1, message) for p in parts]
        ForwardedProduce(self._writes, session, exchange, view, plan).send({}, results)


def _denied(part: ProducePart | PartitionResult) -> PartitionResult:
    return PartitionResult(part.topic, part.partition, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), -1, -1, -1, None)


def _own_code(view: ProduceRequestView) -> ErrorCode:
    """The error for a request that names the gateway's own topics or ids; NONE (0) for others."""
    if view.transactional_id is not None and is_own(view.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if any(is_own(part[0]) for part in view.parts):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE
