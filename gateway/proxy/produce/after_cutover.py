"""Keeps producers in order right after a cutover: gathers batches and outcomes for `proxy/rules/cutover_order.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

import structlog

from gateway.cutover.write_pause.rules.routing import Routing, RoutingTable, TopicRoute
from gateway.cutover.write_pause.rules.write_pause import WritePhase
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import NetError
from gateway.kafka.topic_partition import TopicPartition
from gateway.kafka.transactions import active_producers
from gateway.proxy.produce.mirrored_retries import MirroredRetries
from gateway.proxy.produce.produce_plan import ProducePlan, record_count
from gateway.proxy.rules.cutover_order import CutoverOrder, SentBatch
from gateway.state.producer_ids import in_failback_epoch, is_gateway_issued
from protocol.batch.stamp import stamp_of
from protocol.produce import PartitionResult, ProducePart
from protocol.wire import Buffer

_ASK_S = 5.0
_log = structlog.get_logger("lockgate.proxy")


class AfterCutover:
    """One per gateway. Not for transactional producers: a write pause waits for their transactions.

    Args:
        sources: by link.
        spawn: keeps a task until it ends.
    """

    def __init__(
        self,
        *,
        routing: RoutingTable,
        target: Cluster,
        sources: Mapping[str, Cluster],
        clock: Callable[[], float],
        spawn: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self.retries = MirroredRetries()
        self._routing = routing
        self._target = target
        self._sources = sources
        self._clock = clock
        self._spawn = spawn
        self._order = CutoverOrder()
        self._asked: set[TopicPartition] = set()  # partitions whose leaders are asked now
        routing.subscribe(self._routing_changed)

    def _routing_changed(self, routing: Routing, changed: Collection[str]) -> None:
        self._order.routing_changed(routing, changed, self._clock())

    def held(self, body: Buffer, parts: Sequence[ProducePart]) -> None:
        """A write pause holds the request."""
        self._order.held(self._batches(body, parts))

    def unanswered(self, body: Buffer, parts: Sequence[ProducePart]) -> None:
        """The connection to the source was lost with the request; if a failover closed it, the request comes again."""
        self._order.held(self._batches(body, parts))

    @property
    def is_over(self) -> bool:
        """There was no recent cutover: every request is admitted, and answers need not be noted."""
        return not self._order

    def admits(self, connection: int, body: Buffer, plan: ProducePlan) -> bool:
        """Whether the request may be sent now. Registers in the plan for the answer, if it must be noted."""
        if not self._order or not self._order.watches(now := self._clock()):  # nearly always only this check
            return True
        batches = self._batches(body, [*plan.target, *(part for parts in plan.source.values() for part in parts)])
        if early := self._order.too_early(connection, batches, now):
            for batch in early:
                self._ask(batch)
            return False
        if batches:
            plan.on_results = lambda results: self._answered(batches, results)
        return True

    def _answered(self, batches: Sequence[SentBatch], results: Sequence[PartitionResult]) -> None:
        failed = {(result.topic, result.partition) for result in results if result.error_code}
        for batch in batches:
            self._order.answered(batch, known=(batch.topic, batch.partition) not in failed)

    def _ask(self, batch: SentBatch) -> None:
        place, route = (batch.topic, batch.partition), self._routing.current.topics.get(batch.topic)
        if route is None or place in self._asked:
            return
        self._asked.add(place)
        work = asyncio.get_running_loop().create_task(self._known(batch, route), name=f"producers of {batch.topic}")
        self._spawn(work)

    async def _known(self, batch: SentBatch, route: TopicRoute) -> None:
        """Ask the cluster whether it knows the producer: another gateway may have sent the earlier batches."""
        on_target = route.phase is WritePhase.SWITCHED
        cluster = self._target if on_target else self._sources.get(route.link)
        place = batch.topic if on_target else route.source_topic, batch.partition
        producer_id = batch.producer_id
        if route.failback_epoch and is_gateway_issued(producer_id):
            producer_id = in_failback_epoch(producer_id, route.failback_epoch)
        try:
            found = {} if cluster is None else await active_producers(cluster, [place], timeout_s=_ASK_S)
        except (NetError, OSError, TimeoutError) as exc:
            _log.info("the producers of a partition are not known", topic=place[0], partition=place[1], reason=str(exc))
            return
        finally:
            self._asked.discard((batch.topic, batch.partition))
        if producer_id in found.get(place, ()):
            self._order.answered(batch, known=True)

    def _batches(self, body: Buffer, parts: Sequence[ProducePart]) -> list[SentBatch]:
        found = []
        for part in parts:
            records = body[part.start : part.end]
            producer_id, epoch, first = stamp_of(records)
            route = self._routing.current.topics.get(part.topic)
            if route is None or producer_id < 0 or first < 0:
                continue
            last = (first + record_count(records, 0, len(records)) - 1) & 0x7FFFFFFF
            entries = self.retries.entries(route, part.partition, producer_id)
            found.append(SentBatch(part.topic, part.partition, producer_id, epoch, first, last, entries))
        return found
