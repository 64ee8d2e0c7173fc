"""The control plane of one term of leadership: built when it begins, taken down when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.config import Settings
from gateway.control.context import target_errors
from gateway.control.errors import Conflict, NotFound
from gateway.control.fleet import Fleet
from gateway.control.fleet_events import FleetEvents
from gateway.control.fleet_mirrors import FleetMirrors
from gateway.control.fleet_parts import Term
from gateway.control.fleet_views import Gateways
from gateway.control.group_monitor import GroupMonitor
from gateway.control.led_engine import LedEngine
from gateway.control.net_access import NetAccess
from gateway.control.promote_group import GroupPromotions
from gateway.control.promote_topic import TopicPromoter
from gateway.control.remote_fences import FleetFences
from gateway.control.routing_publisher import RoutingPublisher
from gateway.control.service import ControlService
from gateway.control.sources import Sources
from gateway.control.store import StateStore, StoreError
from gateway.control.ways_back import WaysBack
from gateway.domain.gates import GroupGates
from gateway.domain.offset_map import OffsetMap
from gateway.domain.ports import Fences
from gateway.domain.progress import MirrorProgress
from gateway.domain.promote_snapshot import PromoteLimits
from gateway.domain.records import LinkRecord, MirrorRecord, PartitionStart
from gateway.domain.routing import RoutingTable
from gateway.mirror.engine import Engine
from gateway.net.host import Host
from gateway.net.peers import Peers
from gateway.replication.start import plan_start
from gateway.telemetry.metrics import Metrics
from protocol.errors import ProtocolError

_LOOK_S = 1.0
_COMMIT_S = 5.0  # for the record of a cutover, when the target is slow


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What outlives a term."""

    settings: Settings
    store: StateStore
    target: NetAccess
    sources: Sources
    routing: RoutingTable
    publisher: RoutingPublisher
    gates: GroupGates
    progress: MirrorProgress
    engine: Engine
    mirrors: FleetMirrors
    events: FleetEvents
    peers: Peers
    local: Fences
    metrics: Metrics
    host: Host


class LeaderTerm:
    """`service` and `gateways` are what REST asks. `start` and `close` once each."""

    def __init__(self, around: Surroundings, term: Term, fleet: Fleet) -> None:
        self._around = around
        self._term = term
        self._topics: TopicPromoter | None = None
        self.fences = FleetFences(
            name=fleet.me.name,
            local=around.local,
            peers=around.peers,
            required=term.registry.required,
            publisher=around.publisher,
            record=self._record,
            held_up=around.mirrors.held_up,
            term=term.number,
        )
        self.service = ControlService(
            store=around.store,
            target=around.target,
            sources=around.sources,
            routing=around.routing,
            gates=around.gates,
            progress=around.progress,
            plan_start=self._plan_start,
            publisher=around.publisher,
            host=around.host,
        )
        self.service.context.fleet = term.quorum
        self.service.context.may_commit = fleet.lease_valid
        self.service.context.claimed = around.mirrors.claimed
        self.service.context.offset_maps = self._offset_maps
        self.gateways = Gateways(fleet.me.name, around.store, term.registry, around.mirrors.mirrored)

    async def start(self) -> None:
        """Take over what the records say is under way."""
        around, service = self._around, self.service
        service.restore()
        self._topics = topics = self._topic_promoter()
        around.mirrors.promoted = topics.under_way
        groups = GroupPromotions(service.context, quiet_s=around.settings.groups.quiet_period_s)
        around.events.lead(service.events)
        engine = LedEngine(around.engine, around.engine.is_started, around.mirrors.status)
        await service.start(engine=engine, topic_promoter=topics, group_promoter=groups)
        around.mirrors.aside = service.catch_ups.aside
        service.ways_back = WaysBack(
            context=service.context, measure=service.measure, routing=around.routing, fences=self.fences
        )
        topics.resume()
        service.ways_back.resume()
        GroupMonitor(service.context, groups).start()
        service.context.background.every(_LOOK_S, self._forget_presumed, "gateways whose leases are over")
        around.metrics.control = service.numbers

    async def leave(self) -> None:
        """The gateway is about to stop: what holds writes comes to its end first."""
        limit_s = self._around.settings.promote.fence_timeout_s + _COMMIT_S
        if self._topics is not None:
            await self._topics.leave(limit_s)

    async def close(self) -> None:
        """End what runs. What it has fenced stays so until the next leader's assignment: it may have been flipped."""
        around = self._around
        around.events.lead(None)
        around.mirrors.aside = tuple
        await self.service.close()
        around.mirrors.promoted = tuple
        around.mirrors.records_changed()
        await self.fences.close()

    def _topic_promoter(self) -> TopicPromoter:
        limits = self._around.settings.promote
        return TopicPromoter(
            context=self.service.context,
            routing=self._around.routing,
            fences=self.fences,
            coverage=self._term.registry,
            limits=PromoteLimits(
                lag_threshold=limits.lag_threshold,
                fence_timeout_s=limits.fence_timeout_s,
                grace_s=limits.grace_ms / 1000,
                unknown_grace_s=limits.unknown_grace_ms / 1000,
            ),
            on_fence_ended=self._around.metrics.fence_ended,
        )

    def _record(self, topic: str) -> MirrorRecord | None:
        return next((record for (_, name), record in self._around.store.mirrors.items() if name == topic), None)

    async def _forget_presumed(self) -> None:
        try:
            await self._term.registry.forget_presumed()
        except (StoreError, NotFound):
            return  # looked at again in a second

    async def _plan_start(
        self, link: LinkRecord, topic: str, partitions: int, timestamp: int
    ) -> tuple[PartitionStart, ...]:
        clusters = self._around.sources.clusters
        return await plan_start(clusters[link.name], topic, timestamp, partitions=range(partitions))

    async def _offset_maps(self, mirror: MirrorRecord) -> Sequence[OffsetMap]:
        with target_errors():
            try:
                return await self._around.engine.offset_maps(mirror)
            except (ValueError, LookupError, ProtocolError) as exc:
                raise Conflict(f"the offset map of mirror topic '{mirror.mirror_topic}': {exc}") from exc
