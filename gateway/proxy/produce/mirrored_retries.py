"""Answers batches that a producer retries over a cutover and that the mirror has already copied."""

from __future__ import annotations

from typing import Final

from gateway.cutover.write_pause.rules.routing import TopicRoute
from gateway.mirror.partition.rules.producer_table import retry_of
from gateway.proxy.produce.produce_plan import ProducePlan
from gateway.state.producer_entries import PackedProducers, ProducerEntry
from protocol.produce import PartitionResult, ProducePart
from protocol.wire import Buffer

_NONE: Final = PackedProducers()


class MirroredRetries:
    """Answers retries from the producer tables that routes carry after a cutover."""

    def answer(self, body: Buffer, plan: ProducePlan) -> list[PartitionResult]:
        """Remove the parts from the plan that repeat a batch mirrored before a cutover. Returns their answers."""
        if not any(route.producers for route in plan.routes.values()):
            return []
        answered: list[PartitionResult] = []
        plan.target = self._rest(body, plan, plan.target, answered)
        for key, parts in list(plan.source.items()):
            plan.source[key] = self._rest(body, plan, parts, answered)
            if not plan.source[key]:
                del plan.source[key]
        return answered

    def _rest(
        self, body: Buffer, plan: ProducePlan, parts: list[ProducePart], answered: list[PartitionResult]
    ) -> list[ProducePart]:
        rest: list[ProducePart] = []
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
        """The route's batches of a producer on a partition."""
        return self._known(route, partition).get(producer_id)

    @staticmethod
    def _known(route: TopicRoute, partition: int) -> PackedProducers:
        """A partition's producers; none for a partition that the route lacks: a client may name any number."""
        return PackedProducers.of(route.producers[partition]) if 0 <= partition < len(route.producers) else _NONE
