"""Batches that a producer sends again over a cutover, although the mirror has copied them: they have an offset
already."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.cutover.write_pause.rules.routing import TopicRoute
from gateway.mirror.partition.rules.producer_table import by_producer, retry_of
from gateway.proxy.produce.produce_plan import ProducePlan
from gateway.state.records import ProducerEntry
from protocol.produce import Part, PartitionResult
from protocol.wire import Buffer

_Table = list[Mapping[int, tuple[ProducerEntry, ...]]]


class MirroredRetries:
    """Answers them from the tables of producers that routes carry after a cutover."""

    def __init__(self) -> None:
        self._tables: dict[str, tuple[object, _Table]] = {}

    def answer(self, body: Buffer, plan: ProducePlan) -> list[PartitionResult]:
        """Take the parts out of the plan that repeat a batch mirrored before a cutover; what they are answered with."""
        if not any(route.producers for route in plan.routes.values()):
            return []
        answered: list[PartitionResult] = []
        plan.target = self._rest(body, plan, plan.target, answered)
        for key, parts in list(plan.source.items()):
            plan.source[key] = self._rest(body, plan, parts, answered)
            if not plan.source[key]:
                del plan.source[key]
        return answered

    def _rest(self, body: Buffer, plan: ProducePlan, parts: list[Part], answered: list[PartitionResult]) -> list[Part]:
        rest: list[Part] = []
        for part in parts:
            route = plan.routes.get(part.topic)
            offset = None
            if route is not None and (known := self._known(route, part.partition)):
                offset = retry_of(known, body[part.start : part.end])
            if offset is None:
                rest.append(part)
            else:
                answered.append(PartitionResult(part.topic, part.partition, 0, offset, -1, -1, None))
        return rest

    def entries(self, route: TopicRoute, partition: int, producer_id: int) -> tuple[ProducerEntry, ...]:
        """What the route carries of a producer on a partition."""
        return self._known(route, partition).get(producer_id, ())

    def _known(self, route: TopicRoute, partition: int) -> Mapping[int, tuple[ProducerEntry, ...]]:
        """A partition's producers by id; none of one that the route has not: a client may name any number."""
        if not 0 <= partition < len(route.producers) or not route.producers[partition]:
            return {}
        return self._table(route)[partition]

    def _table(self, route: TopicRoute) -> _Table:
        """The route's producers by id; worked out once, since snapshots share the record's own tuple."""
        known = self._tables.get(route.mirror_topic)
        if known is None or known[0] is not route.producers:
            known = route.producers, [by_producer(entries) for entries in route.producers]
            self._tables[route.mirror_topic] = known
        return known[1]
