"""What the operations share. Built once by `service.py`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from gateway.control.access import ClusterAccess
from gateway.control.background import Background
from gateway.control.errors import Conflict, NotFound, SourceUnreachable, TargetUnreachable
from gateway.control.locks import KeyedLocks
from gateway.control.routing_publisher import RoutingPublisher
from gateway.control.sources import LinkHealth, Sources
from gateway.control.state_topic import TOPIC
from gateway.control.store import StateStore, StoreConflict
from gateway.domain.gates import GroupGates
from gateway.domain.mirror_states import MirrorOperation, apply
from gateway.domain.offset_map import OffsetMap
from gateway.domain.offset_sync import OffsetSyncStatus
from gateway.domain.ports import GroupPromoter, MirrorEngine, TopicPromoter
from gateway.domain.progress import MirrorProgress
from gateway.domain.records import LinkRecord, MirrorRecord, PartitionStart
from gateway.net.errors import ClusterUnavailable, NetError

# (link, source topic, partitions, start timestamp of `domain/link_config.py`) -> where each partition begins
PlanStart = Callable[[LinkRecord, str, int, int], Awaitable[tuple[PartitionStart, ...]]]


class FleetWide(Protocol):
    """What the other gateways must have done before an operation goes on. `fleet_quorum.py`."""

    async def read_by_all(self) -> None:
        """Until every gateway that may serve a client has read the state up to here; Conflict when one is lost."""

    async def close_gate(self, group: str) -> None:
        """Close the group's gate elsewhere, and wait for its commits under way; Conflict when one is lost."""

    def gate_by_record(self, group: str) -> Coroutine[Any, Any, None]:
        """Elsewhere, too, the gate is as the group's record says now. What is returned tells it; it never raises."""


class OnlyHere:
    """A fleet of this gateway alone."""

    async def read_by_all(self) -> None:
        """Nobody else is there."""

    async def close_gate(self, group: str) -> None:
        """Nobody else is there."""

    async def gate_by_record(self, group: str) -> None:
        """Nobody else is there."""


VIEW_S = 5.0  # how long a view waits for a source
_ATTEMPTS = 8
_log = structlog.get_logger("lockgate.control")


@dataclass(kw_only=True)
class ControlContext:
    """Store, clusters and partners of the operations. The three partners are there from `service.start` on."""

    store: StateStore
    target: ClusterAccess
    sources: Sources
    gates: GroupGates
    progress: MirrorProgress
    publisher: RoutingPublisher
    plan_start: PlanStart
    now_ms: Callable[[], int]
    clock: Callable[[], float] = time.monotonic
    state_topic: str = TOPIC
    locks: KeyedLocks = field(default_factory=KeyedLocks)
    background: Background = field(default_factory=Background)
    health: dict[str, LinkHealth] = field(default_factory=dict)
    # (link, mirror topic) -> partition -> records that came to the source after the flip; set by the topic promoter
    late_records: Callable[[str, str], Mapping[int, int]] = lambda link, topic: {}
    # (link, group) -> members on the source after the promote; set by the group monitor
    late_members: Callable[[str, str], int] = lambda link, group: 0
    # (link, group) -> partitions for which offsets were committed on the source after the promote; set likewise
    late_commits: Callable[[str, str], int] = lambda link, group: 0
    # the offset maps of a mirror topic in mode translate, by partition; a ControlError when they cannot be read now
    offset_maps: Callable[[MirrorRecord], Awaitable[Sequence[OffsetMap]]] = field(default_factory=lambda: _no_maps)
    # after a failover, once the target is written: the mirror as it is then
    # (link, mirror topic): the engine translates its offsets, whether or not the record says so yet
    turned_translated: Callable[[str, str], bool] = lambda link, topic: False
    # (link, group): how its offset sync stands, None where there is none
    offset_sync: Callable[[str, str], OffsetSyncStatus | None] = lambda link, group: None
    on_failover: list[Callable[[MirrorRecord], Awaitable[None]]] = field(default_factory=list)
    # (link, mirror topic): the record says that a way back is to go on
    go_on: Callable[[str, str], None] = lambda link, topic: None
    # (link, mirror topic): what a way back of the topic waits for
    way_back_waits: Callable[[str, str], str] = lambda link, topic: ""
    on_deleted: list[Callable[[MirrorRecord], object]] = field(default_factory=list)
    # called at the end of the term, when nothing runs any more
    closers: list[Callable[[], None]] = field(default_factory=list)
    fleet: FleetWide = field(default_factory=OnlyHere)
    # False when this gateway was not heard by its fleet for too long: another one may lead by now
    may_commit: Callable[[], bool] = lambda: True
    # (link, mirror topic): for the time of the block no promote of the topic runs; one that does is ended first, or
    # comes to its end. A Conflict when its end is not known in time. Set by the topic promoter
    without_promote: Callable[[str, str], AbstractAsyncContextManager[None]] = lambda link, topic: nullcontext()
    # (link, mirror topic): for the time of the block this gateway mirrors the topic, whoever did so before
    claimed: Callable[[str, str], AbstractAsyncContextManager[None]] = lambda link, topic: nullcontext()
    engine: MirrorEngine = field(init=False)
    topic_promoter: TopicPromoter = field(init=False)
    group_promoter: GroupPromoter = field(init=False)

    def link(self, name: str) -> LinkRecord:
        """The link; NotFound if there is none."""
        link = self.store.links.get(name)
        if link is None:
            raise NotFound(f"link '{name}' does not exist")
        return link

    def mirror(self, link: str, topic: str) -> MirrorRecord:
        """The mirror; NotFound if the link or the mirror does not exist."""
        self.link(link)
        mirror = self.store.mirrors.get((link, topic))
        if mirror is None:
            raise NotFound(f"link '{link}' has no mirror topic '{topic}'")
        return mirror

    async def reach_for_view(self, link: LinkRecord) -> ClusterAccess:
        """The source for something shown only: one that is known to be lost is not waited for."""
        health = self.health.get(link.name)
        if health is not None and not health.available:
            raise SourceUnreachable(f"the source of link '{link.name}' is unavailable: {health.message}")
        return await self.sources.reach(link)

    async def change(self, link: str, topic: str, operation: MirrorOperation, **changes: object) -> MirrorRecord:
        """Apply an operation of the state table to the stored mirror, by compare and set.

        Raises:
            NotFound, WrongState: nothing was changed.
            Conflict: it is being created, or others changed it again and again.
            StoreError: it could not be written.
        """
        for _ in range(_ATTEMPTS):
            old = self.mirror(link, topic)
            require_created(old)
            new = apply(operation, old, self.now_ms(), **changes)
            try:
                await self.store.replace(old, new)
            except StoreConflict:
                continue
            _log.info(
                "mirror state",
                link=link,
                topic=topic,
                old=old.state.value,
                new=new.state.value,
                reason=new.error_message,
            )
            return new
        raise Conflict(f"mirror topic '{topic}' is being changed by other operations; try again")


def require_created(mirror: MirrorRecord) -> None:
    """Raises Conflict: its create has not come to its end, so there is nothing yet that an operation could change."""
    if not mirror.created:
        raise Conflict(f"mirror topic '{mirror.mirror_topic}' is being created; try again when it is")


async def _no_maps(mirror: MirrorRecord) -> Sequence[OffsetMap]:
    raise Conflict(f"the offset map of mirror topic '{mirror.mirror_topic}' is not there yet")


@contextmanager
def source_errors(link: str) -> Iterator[None]:
    """Turn errors of the Kafka client into SourceUnreachable, or Conflict when the source refuses."""
    try:
        yield
    except (ClusterUnavailable, TimeoutError, OSError) as exc:
        raise SourceUnreachable(f"the source of link '{link}': {str(exc) or 'no answer in time'}") from exc
    except NetError as exc:
        raise Conflict(f"the source of link '{link}' refuses: {exc}") from exc


@contextmanager
def target_errors() -> Iterator[None]:
    """Turn errors of the Kafka client into TargetUnreachable, or Conflict when the target refuses."""
    try:
        yield
    except (ClusterUnavailable, TimeoutError, OSError) as exc:
        raise TargetUnreachable(f"the target cluster: {str(exc) or 'no answer in time'}") from exc
    except NetError as exc:
        raise Conflict(f"the target cluster refuses: {exc}") from exc
