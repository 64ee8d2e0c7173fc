"""Where each partition of a Produce request goes. Pure: a scanned request and a routing snapshot in, a plan out."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway.cutover.write_pause.rules.routing import Routing, TopicRoute, WritePhase
from gateway.proxy.rules.pipeline_guard import Batch
from gateway.proxy.rules.transactional_producers import TransactionalWrite
from protocol.batch.stamp import stamp_of
from protocol.produce import PartitionResult, ProducePart
from protocol.wire import Buffer

_LAST_OFFSET_DELTA = struct.Struct(">i").unpack_from
_BATCH_HEADER_BYTES = 61
_FORWARD = WritePhase.FORWARD  # looked up once: an attribute of an enum costs as much as a call


@dataclass(slots=True)
class ProducePlan:
    """`paused`: a topic whose pause holds the whole request, or None. `unleased`: a part may not be written without a
    lease, and there is none. `target`: parts for the target.

    `missing`: parts for partitions that the source lacks: they were added on the target.

    `source`: parts per (link, source leader). `leaderless`: (link, source topic) whose leader is not known yet.
    `write`: of a transaction, None otherwise. `on_results`: called once with the results of all parts.
    """

    paused: str | None = None
    unleased: bool = False
    target: list[ProducePart] = field(default_factory=list)
    source: dict[tuple[str, int], list[ProducePart]] = field(default_factory=dict)
    missing: list[ProducePart] = field(default_factory=list)
    routes: dict[str, TopicRoute] = field(default_factory=dict)
    leaderless: tuple[str, str] | None = None
    write: TransactionalWrite | None = None
    on_results: Callable[[Sequence[PartitionResult]], None] | None = None


LeaderOf = Callable[[str, str, int], "int | None"]  # (link, source topic, partition) -> source node id
Lacks = Callable[
    [str, str, int], bool
]  # (link, source topic, partition) -> the source is seen, and has no such partition


def lacks_none(link: str, topic: str, partition: int) -> bool:
    """For sources that have every partition of the target."""
    return False


def plan_produce(
    parts: Sequence[ProducePart],
    routing: Routing,
    leader_of: LeaderOf,
    may_write: Callable[[], bool],
    write: TransactionalWrite | None = None,
    lacks: Lacks = lacks_none,
) -> ProducePlan:
    """Sort the parts by destination. Calls `may_write` once, if a part's topic is or was mirrored.

    A pause holds the whole request, so that a producer's order over its partitions is kept; but not a `write` of a
    transaction that was open before: the pause waits for its end.
    """
    plan = ProducePlan(write=write)
    topics = routing.topics
    leased: bool | None = None
    for part in parts:
        route = topics.get(part.topic)
        if route is None:
            plan.target.append(part)
            continue
        if leased is None:
            leased = may_write()
        goes = route.pause.goes(leased)
        if goes is not _FORWARD:
            if goes is None:
                plan.unleased = True
                return plan
            paused = goes is WritePhase.PAUSED
            if paused and (write is None or part.topic not in write.passing):
                plan.paused = part.topic
                return plan
            if not paused or route.counted:  # the pause of a failback
                plan.routes[part.topic] = route
                plan.target.append(part)
                continue
        plan.routes[part.topic] = route
        leader = leader_of(route.link, route.source_topic, part.partition)
        if leader is None and lacks(route.link, route.source_topic, part.partition):
            plan.missing.append(part)
            continue
        if leader is None:
            plan.leaderless = (route.link, route.source_topic)
            return plan
        plan.source.setdefault((route.link, leader), []).append(part)
    return plan


def batches_of(body: Buffer, parts: Sequence[ProducePart]) -> list[Batch]:
    """The first batch of each part of a request, for `PipelineGuard`."""
    return [(part.topic, part.partition, *stamp_of(body[part.start : part.end])) for part in parts]


def record_count(body: Buffer, start: int, end: int) -> int:
    """Records in the first v2 batch of `body[start:end]` (lastOffsetDelta + 1, as the broker counts); 0 if there is no
    batch."""
    if end - start < _BATCH_HEADER_BYTES:
        return 0
    delta: int = _LAST_OFFSET_DELTA(body, start + 23)[0]
    return 0 if delta < 0 else delta + 1
