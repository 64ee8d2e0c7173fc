"""Where each partition of a Produce request goes. Pure: a scanned request and a routing snapshot in, a plan out."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gateway.domain.pipeline_guard import Batch
from gateway.domain.routing import Phase, Routing, TopicRoute
from protocol.producer_stamp import stamp_of
from protocol.wire import Buffer

if TYPE_CHECKING:
    from gateway.proxy.transactional_produce import TransactionalWrite

_LAST_OFFSET_DELTA = struct.Struct(">i")
_BATCH_HEADER_BYTES = 61


class Part(NamedTuple):
    """One partition of a request: its records are `body[start:end]`."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(slots=True)
class ProducePlan:
    """`fenced`: a topic whose fence holds the whole request, or None. `target`: parts for the target.

    `source`: parts per (link, source leader). `leaderless`: (link, source topic) whose leader is not known yet.
    `write`: of a transaction, None otherwise.
    """

    fenced: str | None = None
    target: list[Part] = field(default_factory=list)
    source: dict[tuple[str, int], list[Part]] = field(default_factory=dict)
    routes: dict[str, TopicRoute] = field(default_factory=dict)
    leaderless: tuple[str, str] | None = None
    write: TransactionalWrite | None = None


LeaderOf = Callable[[str, str, int], "int | None"]  # (link, source topic, partition) -> source node id


def plan_produce(
    parts: Sequence[Part], routing: Routing, leader_of: LeaderOf, write: TransactionalWrite | None = None
) -> ProducePlan:
    """Sort the parts by destination.

    A fence holds the request whole, so that a producer's order over its partitions stays as it was sent; but not a
    `write` of a transaction that was open before: the fence waits for its end.
    """
    plan = ProducePlan(write=write)
    topics = routing.topics
    for part in parts:
        route = topics.get(part.topic)
        if route is None:
            plan.target.append(part)
            continue
        fenced = route.phase is Phase.FENCED
        if fenced and (write is None or part.topic not in write.passing):
            plan.fenced = part.topic
            return plan
        plan.routes[part.topic] = route
        if route.phase is Phase.SWITCHED or (fenced and route.counted):  # the fence of a way home
            plan.target.append(part)
            continue
        leader = leader_of(route.link, route.source_topic, part.partition)
        if leader is None:
            plan.leaderless = (route.link, route.source_topic)
            return plan
        plan.source.setdefault((route.link, leader), []).append(part)
    return plan


def batches_of(body: Buffer, parts: Sequence[Part]) -> list[Batch]:
    """The first batch of each part of a request, as a pipeline's guard knows it."""
    return [(part.topic, part.partition, *stamp_of(body[part.start : part.end])) for part in parts]


def record_count(records: Buffer) -> int:
    """Records in the first v2 batch (lastOffsetDelta + 1, what the broker itself counts by); 0 if it is none."""
    if len(records) < _BATCH_HEADER_BYTES:
        return 0
    delta: int = _LAST_OFFSET_DELTA.unpack_from(records, 23)[0]
    return max(delta + 1, 0)
