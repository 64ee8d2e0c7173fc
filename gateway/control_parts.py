"""What the operations of one term of leadership are made of, and how the larger ones are put together.

Only what wires a control plane looks here: `control_operations.py`, `runtime/term.py`, and the tests. No operation is
handed the parts: each names in its constructor what it needs. They are built in this order, each of those before it:

    tools = failback_tools(parts, ...)
    runs = FailbackRuns(tools, parts.background)          # a promote of a mirror back sets one going
    groups = GroupPromotions(group_tools(parts, ...), ...)
    topics = topic_promoter(parts, go_on=runs.go_on, groups=groups.moves, ...)
    back = failbacks(parts, tools, runs, without_promote=topics.without, ...)
    ControlService(parts, topic_promoter=topics, group_promoter=groups, failbacks=back, ...)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from gateway.access.acl_sync import AclSync
from gateway.access.rules.users import ClientIdentities
from gateway.cutover.failback.destination import FailbackDestinations
from gateway.cutover.failback.operations import Failbacks
from gateway.cutover.failback.run import FailbackTools
from gateway.cutover.failback.runs import FailbackRuns
from gateway.cutover.failover.ends import FailoverEnds
from gateway.cutover.failover.operations import Alone, Failover
from gateway.cutover.failover.run import FailoverTools, OnFailover
from gateway.cutover.promote.gather import PromoteTools
from gateway.cutover.promote.promoter import TopicPromoter
from gateway.cutover.promote.records_after_cutover import RecordsAfterCutover
from gateway.cutover.promote.rules.snapshot import PromoteLimits
from gateway.cutover.write_pause.interface import Coverage, PausesWrites
from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.groups.gate.rules.gates import GroupGates
from gateway.groups.monitor import GroupMonitor
from gateway.groups.moves import GroupMoves
from gateway.groups.offset_sync import OffsetSync
from gateway.groups.offsets import GroupOffsets, GroupTools
from gateway.groups.promote import GroupPromotions
from gateway.groups.reports import GroupReports
from gateway.migration.carry_out import PausesSeen
from gateway.migration.client_errors import AsksGateways, nobody_counts
from gateway.migration.keeps import KeepTimes
from gateway.mirror.interface import MirrorEngine
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.operations.door import Door
from gateway.operations.fleet_wide import ONLY_HERE, FleetWide
from gateway.operations.link_tasks import LinkTasks
from gateway.operations.offset_translation import (
    AsksMapTopic,
    OffsetMaps,
    ReadsOffsetMaps,
    no_map_topic,
    no_offset_maps,
)
from gateway.operations.origin_ends import NetSourceEnds, NetTargetEnds, SourceEnds
from gateway.operations.records import Records
from gateway.operations.sources import LinkHealth, Sources, SourcesForViews
from gateway.schemas.check import MissingIdRequests, SchemaCheck
from gateway.schemas.gate import LinkSchemaGates
from gateway.schemas.schema_sync import SchemaSync
from gateway.state.store import StateStore
from gateway.topics.config_drift import ConfigDrift
from gateway.topics.config_sync import ConfigSync, LastConfigs
from gateway.topics.copy_differences import CopyDifferences
from gateway.topics.lifted_configs import LiftedConfigs
from gateway.topics.paused_for_job import PausedForJob
from gateway.topics.status import Measure
from gateway.transport.background import Background
from gateway.transport.host import MACHINE, Host
from gateway.transport.locks import KeyedLocks


class ControlParts:
    """`store`, `target`, `sources`, `routing`, `publisher`, `gates` and `progress` outlive the term.

    `health`: by link name. `engine`: the one that is given, without the mirrors that a job copies.
    """

    def __init__(
        self,
        *,
        store: StateStore,
        target: ClusterAccess,
        sources: Sources,
        routing: RoutingTable,
        gates: GroupGates,
        progress: MirrorProgress,
        engine: MirrorEngine,
        fleet: FleetWide = ONLY_HERE,
        offset_maps: ReadsOffsetMaps = no_offset_maps,
        map_topics: AsksMapTopic = no_map_topic,
        host: Host = MACHINE,
        publisher: RoutingPublisher | None = None,
        identities: ClientIdentities = ClientIdentities(),  # noqa: B008 - it cannot be changed
        ask_answers: AsksGateways = nobody_counts,
        lease_valid: Callable[[], bool] = lambda: True,
    ) -> None:
        """`store` is open, `target` started. `publisher`: of `routing`; its own by default. `identities`: of clients,
        as this gateway's listeners say. `ask_answers`: what clients are answered, by all gateways. `lease_valid`: see
        `Door`."""
        self.target = target
        self.identities = identities
        self.ask_answers = ask_answers
        self.sources = sources
        self.routing = routing
        self.gates = gates
        self.progress = progress
        self.fleet = fleet
        self.clock = host.monotonic
        self.publisher = publisher or RoutingPublisher(store, routing, host.monotonic)
        self.records = Records(store, host.wall_ms)
        self.health: dict[str, LinkHealth] = {}
        self.views = SourcesForViews(sources, self.health)
        self.maps = OffsetMaps(self.records, progress, offset_maps, map_topics)
        self.engine = PausedForJob(engine)
        self.locks = KeyedLocks()
        self.door = Door(self.records, self.locks, lease_valid)
        self.lifted = LiftedConfigs(self.records, sources, target, self.door, host.monotonic)
        self.background = Background()
        self.deleted = DeletedMirrors()
        self.drift = ConfigDrift(host.wall_ms, self.deleted)
        self.differences = CopyDifferences(self.deleted)
        self.tasks = LinkTasks(host.wall_ms)
        self.pauses_seen = PausesSeen(host.monotonic)
        self.deleted.subscribe(lambda mirror: self.pauses_seen.forget(mirror.link, mirror.mirror_topic))
        self.acl_sync = AclSync(
            records=self.records,
            sources=sources,
            views=self.views,
            target=target,
            background=self.background,
            tasks=self.tasks,
            locks=self.locks,
            door=self.door,
            clock=host.monotonic,
        )
        self.schema_sync = SchemaSync(
            records=self.records,
            secrets=sources.secrets,
            background=self.background,
            tasks=self.tasks,
            locks=self.locks,
            door=self.door,
            clock=host.monotonic,
        )
        self.schema_gate = LinkSchemaGates(
            records=self.records,
            check=SchemaCheck(records=self.records, target=target, sync=self.schema_sync),
            sync=self.schema_sync,
            clock=host.monotonic,
        )
        self.missing_ids = MissingIdRequests(
            records=self.records, engine=self.engine, sync=self.schema_sync, clock=host.monotonic
        )
        self.measure = Measure(
            records=self.records,
            engine=self.engine,
            target=target,
            views=self.views,
            maps=self.maps,
            deleted=self.deleted,
        )


def topic_promoter(
    parts: ControlParts,
    *,
    pauses: Mapping[str, PausesWrites],
    limits: PromoteLimits,
    go_on: Callable[[str, str], None],
    coverage: Coverage | None = None,
    groups: GroupMoves | None = None,
    ends: SourceEnds | None = None,
    target_ends: SourceEnds | None = None,
    on_pause_ended: Callable[[str, str, float, Mapping[str, float]], None] = lambda link, outcome, seconds, steps: None,
    clock: Callable[[], float] | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> TopicPromoter:
    """With what every run uses.

    Args:
        pauses: of every gateway that must acknowledge, by its name; a live mapping.
        coverage: of those that cannot be asked; None: there is one gateway.
        groups: what carries groups over with the topics; None: topics only.
        ends: reads the source's log ends; its own Kafka client by default.
        target_ends: reads the target's, for a failback; so too.
        go_on: told (link, mirror topic) when the record says that a failback is to go on.
        on_pause_ended: told (link, how it ended, seconds that writes were paused, the same by what was done).
    """
    clock, ends = clock or parts.clock, ends or NetSourceEnds(parts.sources)

    def pause_ended(link: str, topics: Sequence[str], outcome: str, seconds: float, steps: Mapping[str, float]) -> None:
        parts.pauses_seen.ended(link, topics, outcome, seconds)
        on_pause_ended(link, outcome, seconds, steps)

    tools = PromoteTools(
        records=parts.records,
        engine=parts.engine,
        progress=parts.progress,
        publisher=parts.publisher,
        lifted=parts.lifted,
        configs=LastConfigs(parts.sources, parts.target),
        acls=parts.acl_sync,
        schema_gate=parts.schema_gate,
        missing_ids=parts.missing_ids.waits,
        locks=parts.locks,
        routing=parts.routing,
        pauses=pauses,
        coverage=coverage,
        groups=groups,
        ends=ends,
        target_ends=target_ends or NetTargetEnds(parts.target),
        limits=limits,
        on_pause_ended=pause_ended,
        go_on=go_on,
        clock=clock,
        sleep=sleep,
        earliest_pause=clock() + limits.unknown_grace_s,
        keep_ms=KeepTimes(parts.records).keep_ms,
    )
    return TopicPromoter(
        tools,
        late=records_after_cutover(parts, ends, clock),
        sources=parts.sources,
        target=parts.target,
        background=parts.background,
    )


def records_after_cutover(
    parts: ControlParts, ends: SourceEnds, clock: Callable[[], float] | None = None
) -> RecordsAfterCutover:
    """`ends` reads the source's log ends."""
    return RecordsAfterCutover(
        records=parts.records,
        sources=parts.sources,
        health=parts.health,
        lifted=parts.lifted,
        ends=ends,
        background=parts.background,
        deleted=parts.deleted,
        clock=clock or parts.clock,
    )


def failback_tools(parts: ControlParts, *, ends: SourceEnds | None = None, patience_s: float = 30.0) -> FailbackTools:
    """`ends` reads the source's log ends; its own Kafka client by default. `patience_s`: see there."""
    destinations = FailbackDestinations(
        records=parts.records,
        sources=parts.sources,
        target=parts.target,
        maps=parts.maps,
        ends=ends or NetSourceEnds(parts.sources),
    )
    return FailbackTools(
        records=parts.records,
        sources=parts.sources,
        target=parts.target,
        engine=parts.engine,
        progress=parts.progress,
        destinations=destinations,
        lifted=parts.lifted,
        door=parts.door,
        locks=parts.locks,
        routing=parts.routing,
        patience_s=patience_s,
        clock=parts.clock,
    )


def failbacks(
    parts: ControlParts,
    tools: FailbackTools,
    runs: FailbackRuns,
    *,
    pauses: Mapping[str, PausesWrites],
    without_promote: Alone,
    overridden: Alone,
    landing_s: float,
    coverage: Coverage | None = None,
    on_failover: Sequence[OnFailover] = (),
    ends: SourceEnds | None = None,
    target_ends: SourceEnds | None = None,
) -> Failbacks:
    """`tools` and `runs`: see the top of this file. `pauses`: every live gateway's forwarder, by the gateway's name.
    `landing_s`: seconds in which what a gateway had in flight lands once it has gone. `coverage`, `ends`,
    `target_ends`: as of `topic_promoter`."""
    failover_ends = FailoverEnds(
        records=parts.records,
        target_ends=target_ends or NetTargetEnds(parts.target),
        maps=parts.maps,
        measure=parts.measure,
        ends=ends or NetSourceEnds(parts.sources),
        health=parts.health,
        deleted=parts.deleted,
    )
    failover_tools = FailoverTools(
        records=parts.records,
        engine=parts.engine,
        publisher=parts.publisher,
        progress=parts.progress,
        lifted=parts.lifted,
        clock=parts.clock,
        measure=parts.measure,
        routing=parts.routing,
        pauses=pauses,
        ends=failover_ends,
        earliest_stop=parts.clock() + landing_s,
        landing_s=landing_s,
        coverage=coverage,
        on_failover=on_failover,
    )
    failover = Failover(
        failover_tools,
        without_promote=without_promote,
        overridden=overridden,
        locks=parts.locks,
        background=parts.background,
    )
    return Failbacks(tools, runs=runs, failover=failover, background=parts.background)


def group_tools(
    parts: ControlParts, offsets: GroupOffsets | None = None, *, clock: Callable[[], float] | None = None
) -> GroupTools:
    """`offsets`: of both clusters."""
    return GroupTools(
        records=parts.records,
        gates=parts.gates,
        maps=parts.maps,
        progress=parts.progress,
        target=parts.target,
        offsets=offsets or GroupOffsets(parts.records, parts.sources, parts.target, parts.door),
        fleet=parts.fleet,
        background=parts.background,
        health=parts.health,
        clock=clock or parts.clock,
    )


def offset_sync(
    parts: ControlParts, promoter: GroupPromotions, reports: GroupReports, clock: Callable[[], float] | None = None
) -> OffsetSync:
    """Of all links that ask for it."""
    return OffsetSync(
        records=parts.records,
        sources=parts.sources,
        gates=parts.gates,
        maps=parts.maps,
        promoter=promoter,
        reports=reports,
        background=parts.background,
        tasks=parts.tasks,
        clock=clock or parts.clock,
    )


def group_monitor(
    parts: ControlParts, promoter: GroupPromotions, reports: GroupReports, clock: Callable[[], float] | None = None
) -> GroupMonitor:
    """With its offset sync."""
    return GroupMonitor(
        records=parts.records,
        views=parts.views,
        health=parts.health,
        gates=parts.gates,
        promoter=promoter,
        offset_sync=offset_sync(parts, promoter, reports),
        reports=reports,
        background=parts.background,
        clock=clock or parts.clock,
    )


def config_sync(parts: ControlParts, clock: Callable[[], float] | None = None) -> ConfigSync:
    """Of the topics of all links."""
    return ConfigSync(
        records=parts.records,
        sources=parts.sources,
        target=parts.target,
        engine=parts.engine,
        maps=parts.maps,
        locks=parts.locks,
        door=parts.door,
        lifted=parts.lifted,
        tasks=parts.tasks,
        clock=clock or parts.clock,
        drift=parts.drift,
        differences=parts.differences,
    )
