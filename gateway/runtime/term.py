"""The control plane of one term of leadership: built when it begins, taken down when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.config.settings import Settings
from gateway.control_parts import (
    ControlParts,
    failback_tools,
    failbacks,
    group_monitor,
    group_tools,
    topic_promoter,
)
from gateway.control_plane import ControlService
from gateway.cutover.failback.runs import FailbackRuns
from gateway.cutover.promote.promoter import TopicPromoter
from gateway.cutover.promote.rules.snapshot import PromoteLimits
from gateway.cutover.write_pause.interface import PausesWrites
from gateway.cutover.write_pause.leader import FleetPauses
from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.errors import Conflict, NotFound
from gateway.fleet.events import FleetEvents
from gateway.fleet.fleet import Fleet
from gateway.fleet.mirrors import FleetMirrors
from gateway.fleet.parts import Term
from gateway.fleet.peer_progress import LedEngine
from gateway.fleet.peers.channel import Peers
from gateway.fleet.views import Gateways
from gateway.groups.gate.rules.gates import GroupGates
from gateway.groups.lag import GroupLags
from gateway.groups.offsets import GroupOffsets
from gateway.groups.promote import GroupPromotions
from gateway.groups.reports import GroupReports
from gateway.migration.client_errors import AsksGateways
from gateway.mirror.engine.engine import Engine
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.mirror.partition.log_start import plan_start
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.cluster_errors import target_errors
from gateway.operations.net_access import NetAccess
from gateway.operations.secrets.stored import StoredSecrets
from gateway.operations.sources import Sources
from gateway.runtime.identity import identities
from gateway.state.records import LinkRecord, MirrorRecord, PartitionStart
from gateway.state.store import StateStore, StoreError
from gateway.telemetry.metrics import Metrics
from gateway.transport.host import Host
from protocol.errors import ProtocolError

_LOOK_S = 1.0
_COMMIT_S = 5.0  # for the record of a cutover, when the target is slow


@dataclass(frozen=True, slots=True, kw_only=True)
class TermDependencies:
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
    local: PausesWrites
    metrics: Metrics
    host: Host
    ask_answers: AsksGateways


class LeaderTerm:
    """`service` and `gateways` are what REST asks. `start` and `close` once each."""

    def __init__(self, dependencies: TermDependencies, term: Term, fleet: Fleet) -> None:
        self._dependencies = dependencies
        self._term = term
        self.pauses = FleetPauses(
            name=fleet.me.name,
            local=dependencies.local,
            peers=dependencies.peers,
            required=term.registry.required,
            publisher=dependencies.publisher,
            blocked=dependencies.mirrors.blocked,
        )
        self._parts = parts = ControlParts(
            store=dependencies.store,
            target=dependencies.target,
            sources=dependencies.sources,
            routing=dependencies.routing,
            gates=dependencies.gates,
            progress=dependencies.progress,
            engine=LedEngine(dependencies.engine, dependencies.engine.is_started, dependencies.mirrors.status),
            fleet=term.quorum,
            offset_maps=self._offset_maps,
            map_topics=self._map_topic,
            publisher=dependencies.publisher,
            host=dependencies.host,
            identities=identities(dependencies.settings),
            ask_answers=dependencies.ask_answers,
            lease_valid=fleet.lease_valid,
        )
        tools = failback_tools(parts)
        runs = FailbackRuns(tools, parts.background)
        offsets = GroupOffsets(parts.records, parts.sources, parts.target, parts.door)
        self._groups = GroupPromotions(group_tools(parts, offsets), quiet_s=dependencies.settings.groups.quiet_period_s)
        self._topics = self._topic_promoter(runs)
        self.service = ControlService(
            parts,
            topic_promoter=self._topics,
            group_promoter=self._groups,
            group_reports=GroupReports(),
            failbacks=failbacks(
                parts,
                tools,
                runs,
                pauses=self.pauses,
                without_promote=self._topics.without,
                overridden=dependencies.mirrors.overridden,
                landing_s=dependencies.settings.promote.unknown_grace_ms / 1000,
                coverage=term.registry,
                on_failover=[self._groups.failovers.failed_over],
            ),
            plan_start=self._plan_start,
            on_create_ended=dependencies.metrics.create_ended,
        )
        self.gateways = Gateways(fleet.me.name, dependencies.store, term.registry, dependencies.mirrors.mirrored)
        self.service.readiness.gateways = self.gateways.list

    async def start(self) -> None:
        """Take over what the records say is under way."""
        dependencies, service = self._dependencies, self.service
        service.restore()
        dependencies.mirrors.promoted = self._topics.under_way
        dependencies.events.lead(service.events)
        dependencies.engine.tell_lost(service.events)  # while this gateway followed the leader was told by its own
        await service.start()
        dependencies.mirrors.paused_for_job = service.catch_ups.paused_for_job
        self._topics.resume()
        service.failbacks.resume()
        group_monitor(self._parts, self._groups, service.group_reports).start()
        self._group_lags().start(self._parts.background)
        secrets = StoredSecrets(dependencies.store, dependencies.sources.secrets, dependencies.host.token_hex)
        self._parts.background.every(_LOOK_S, secrets.look, "secrets of links")
        self._parts.background.every(_LOOK_S, self._forget_presumed, "gateways whose leases are over")
        dependencies.metrics.control = service.numbers

    async def leave(self) -> None:
        """The gateway is about to stop: what holds writes comes to its end first, promotes and failovers."""
        limit_s = self._dependencies.settings.promote.pause_timeout_s + _COMMIT_S
        await asyncio.gather(self._topics.leave(limit_s), self.service.failbacks.leave(limit_s))

    async def close(self) -> None:
        """End what runs. What it has paused stays so until the next leader's assignment: it may have been cut over."""
        dependencies = self._dependencies
        self._parts.door.shut()
        dependencies.events.lead(None)
        dependencies.mirrors.paused_for_job = tuple
        await self.service.close()
        dependencies.mirrors.promoted = tuple
        dependencies.mirrors.records_changed()
        await self.pauses.close()

    def _group_lags(self) -> GroupLags:
        parts, settings = self._parts, self._dependencies.settings.metrics
        return GroupLags(
            records=parts.records,
            views=parts.views,
            target=parts.target,
            running=parts.engine.status,
            reports=self.service.group_reports,
            interval_s=settings.group_lag_interval_s,
            at_most=settings.group_lag_groups,
        )

    def _topic_promoter(self, runs: FailbackRuns) -> TopicPromoter:
        limits = self._dependencies.settings.promote
        return topic_promoter(
            self._parts,
            go_on=runs.go_on,
            pauses=self.pauses,
            coverage=self._term.registry,
            groups=self._groups.moves,
            limits=PromoteLimits(
                lag_threshold=limits.lag_threshold,
                pause_timeout_s=limits.pause_timeout_s,
                grace_s=limits.grace_ms / 1000,
                unknown_grace_s=limits.unknown_grace_ms / 1000,
            ),
            on_pause_ended=self._dependencies.metrics.pause_ended,
        )

    async def _forget_presumed(self) -> None:
        try:
            await self._term.registry.forget_presumed()
        except (StoreError, NotFound):
            return  # looked at again in a second

    async def _plan_start(
        self, link: LinkRecord, topic: str, partitions: int, timestamp: int
    ) -> tuple[PartitionStart, ...]:
        clusters = self._dependencies.sources.clusters
        return await plan_start(clusters[link.name], topic, timestamp, partitions=range(partitions))

    async def _offset_maps(self, mirror: MirrorRecord) -> Sequence[OffsetMap]:
        with target_errors():
            try:
                return await self._dependencies.engine.offset_maps(mirror)
            except (ValueError, LookupError, ProtocolError) as exc:
                raise Conflict(f"the offset map of mirror topic '{mirror.mirror_topic}': {exc}") from exc

    async def _map_topic(self, mirror: MirrorRecord) -> bool:
        with target_errors():
            try:
                return await self._dependencies.engine.has_offset_map(mirror)
            except (ValueError, ProtocolError) as exc:
                raise Conflict(f"the offset map of mirror topic '{mirror.mirror_topic}': {exc}") from exc
