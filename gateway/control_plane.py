"""The control plane as one object: operations, engine events, loops, and what is rebuilt at start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from gateway.control_parts import ControlParts, config_sync
from gateway.cutover.dry_runs import DryRuns
from gateway.cutover.failback.operations import Failbacks
from gateway.cutover.failback.reversals import Reversals
from gateway.cutover.promote.unpromoted_groups import unpromoted_groups
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import ControlError
from gateway.groups.operations import Groups
from gateway.groups.reports import GroupReports, Lags
from gateway.links.checks import LinkChecks
from gateway.links.links import Links
from gateway.links.running import RunningLinks
from gateway.links.update import LinkUpdates
from gateway.operations.link_tasks import LinkTask
from gateway.operations.partners import GroupPromoter, TopicPromoter
from gateway.operations.running_mirrors import run_by_records, run_links_by_records
from gateway.operations.sources import LinkHealth
from gateway.state.link_config import parse
from gateway.state.mirror_states import shown
from gateway.state.records import GroupRecord, GroupState, LinkRecord, MirrorMode, MirrorRecord, MirrorState
from gateway.state.topic import TOPIC
from gateway.telemetry.numbers import ControlNumbers, GroupNumbers, LinkNumbers, MirrorNumbers
from gateway.topics.auto_create import AutoCreate
from gateway.topics.catch_up import CatchUps
from gateway.topics.clients_not_migrated import SourceReaders
from gateway.topics.copy_watch import LOOK_EVERY_S, CopyWatch
from gateway.topics.delete import MirrorDeletion
from gateway.topics.events import EngineEvents
from gateway.topics.measured_create import CreateEnded, MeasuredCreator, nobody_listens
from gateway.topics.mirrors import Mirrors
from gateway.topics.plan import MirrorPlanner, PlanStart
from gateway.topics.promote_plan import PromotePlanner
from gateway.topics.repair import MirrorRepair
from gateway.topics.topic_configs import TargetConfigs

_SYNC_TICK_S = 1.0
_LEASE_TICK_S = 1.0
_AUTO_CREATE_TICK_S = 1.0
_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """The gateway at a glance. `gateway` and `leader` are names in the fleet."""

    gateway_id: str
    gateway: str = ""
    leader: str = ""
    target_cluster_id: str
    links: dict[str, str]  # name -> state
    mirrors: dict[str, int]  # state -> count
    groups: dict[str, int]  # state -> count
    ports: dict[int, int]  # node id -> listener port


class ControlService:
    """`links`, `mirrors`, `groups`, `catch_ups`, `failbacks`: the operations; `dry_runs`: whether one would begin.
    `auto_create`: what nobody asked for.

    `events`: what the engine is to tell. It lives for one term of leadership, as the parts that it is made of.
    `clock`: monotonic seconds.
    """

    def __init__(
        self,
        parts: ControlParts,
        *,
        topic_promoter: TopicPromoter,
        group_promoter: GroupPromoter,
        group_reports: GroupReports,
        failbacks: Failbacks,
        plan_start: PlanStart,
        state_topic: str = TOPIC,
        on_create_ended: CreateEnded = nobody_listens,
    ) -> None:
        """`group_reports`: written by those that look after groups. `on_create_ended`: told of creates of mirrors."""
        self._store = parts.records.store
        self._sources = parts.sources
        self._target = parts.target
        self._gates = parts.gates
        self._engine = parts.engine
        self._health = parts.health
        self._tasks = parts.tasks
        self._drift = parts.drift
        self._now_ms = parts.records.now_ms
        self._background = parts.background
        self._topic_promoter = topic_promoter
        self.clock = parts.clock
        self.publisher = parts.publisher
        self.failbacks = failbacks
        self.group_reports = group_reports
        checks = LinkChecks(records=parts.records, sources=parts.sources, target=parts.target)
        self.links = Links(
            records=parts.records,
            sources=parts.sources,
            target=parts.target,
            health=parts.health,
            engine=parts.engine,
            publisher=parts.publisher,
            progress=parts.progress,
            locks=parts.locks,
            deleted=parts.deleted,
            checks=checks,
            tasks=parts.tasks,
        )
        self.link_updates = LinkUpdates(
            records=parts.records,
            sources=parts.sources,
            engine=parts.engine,
            fleet=parts.fleet,
            locks=parts.locks,
            checks=checks,
            links=self.links,
        )
        self.catch_ups = CatchUps(
            records=parts.records,
            target=parts.target,
            engine=parts.engine,
            measure=parts.measure,
            locks=parts.locks,
            deleted=parts.deleted,
            clock=parts.clock,
        )
        creator = MeasuredCreator(
            records=parts.records,
            sources=parts.sources,
            target=parts.target,
            engine=parts.engine,
            publisher=parts.publisher,
            planner=MirrorPlanner(
                sources=parts.sources, target=parts.target, plan_start=plan_start, state_topic=state_topic
            ),
            fleet=parts.fleet,
            locks=parts.locks,
            background=parts.background,
        )
        creator.ended, creator.clock = on_create_ended, parts.clock
        self.mirrors = Mirrors(
            records=parts.records,
            engine=parts.engine,
            target=parts.target,
            maps=parts.maps,
            measure=parts.measure,
            catch_ups=self.catch_ups,
            creator=creator,
            readers=SourceReaders(parts.records, parts.views, parts.clock),
            promoter=topic_promoter,
            failback_waits=lambda link, topic: (
                failbacks.waiting_for(link, topic) or self.reversals.waiting_for(link, topic)
            ),
            locks=parts.locks,
            background=parts.background,
            deleted=parts.deleted,
            drift=parts.drift,
            configs=TargetConfigs(parts.records, parts.target),
            trouble=failbacks.trouble,
        )
        self.reversals = Reversals(records=parts.records, mirrors=self.mirrors, failbacks=failbacks, clock=parts.clock)
        self.promote_plans = PromotePlanner(parts.records, self.mirrors, topic_promoter)
        self.mirror_deletion = MirrorDeletion(
            records=parts.records,
            sources=parts.sources,
            target=parts.target,
            engine=parts.engine,
            publisher=parts.publisher,
            progress=parts.progress,
            catch_ups=self.catch_ups,
            readers=lambda link, topics: unpromoted_groups(parts.records.store, parts.sources, link, topics),
            promoting=self.mirrors.promoting,
            without_promote=failbacks.without_promote,
            fleet=parts.fleet,
            locks=parts.locks,
            background=parts.background,
            deleted=parts.deleted,
        )
        self.mirror_repair = MirrorRepair(
            records=parts.records,
            sources=parts.sources,
            target=parts.target,
            engine=parts.engine,
            creator=creator,
            locks=parts.locks,
        )
        self._copy_watch = CopyWatch(
            records=parts.records,
            sources=parts.sources,
            target=parts.target,
            measure=parts.measure,
            background=parts.background,
            clock=parts.clock,
        )
        self.dry_runs = DryRuns(records=parts.records, promotes=self.promote_plans, failbacks=failbacks)
        self.groups = Groups(
            records=parts.records,
            sources=parts.sources,
            views=parts.views,
            gates=parts.gates,
            promoter=group_promoter,
            reports=group_reports,
            locks=parts.locks,
        )
        self.events = EngineEvents(
            records=parts.records,
            measure=parts.measure,
            maps=parts.maps,
            publisher=parts.publisher,
            health=parts.health,
            background=parts.background,
            deleted=parts.deleted,
            tasks=parts.tasks,
            clock=parts.clock,
        )
        self.auto_create = AutoCreate(
            records=parts.records,
            sources=parts.sources,
            views=parts.views,
            target=parts.target,
            creator=creator,
            background=parts.background,
            tasks=parts.tasks,
            clock=parts.clock,
        )
        self._sync = config_sync(parts)
        self._running_links = RunningLinks(
            store=self._store,
            sources=parts.sources,
            engine=parts.engine,
            locks=parts.locks,
            background=parts.background,
        )

    def restore(self) -> None:
        """What must be so before a client is let in: routes, gates as the records say, source clusters known."""
        self._sources.only(self._store.links)
        for link in self._store.links.values():
            self._sources.add(link)
        self._gates.term_begins()
        self.publisher.refresh()

    async def start(self) -> None:
        """Start links and mirrors as their records say, and the loops. After `restore`.

        A source that does not answer stops nothing: its mirrors go on when it does.
        """
        await run_links_by_records(self._engine, lambda: self._store.links)
        for link in list(self._store.links.values()):
            self._background.spawn(self._first_contact(link), f"first contact {link.name}")
        for mirror in list(self._store.mirrors.values()):
            if mirror.deletion:
                finish_delete = self.mirror_deletion.finish(mirror.link, mirror.mirror_topic)
                self._background.spawn(finish_delete, f"finish delete {mirror.mirror_topic}")
            elif not mirror.created:
                finish = self.mirrors.finish_create(mirror.link, mirror.mirror_topic)
                self._background.spawn(finish, f"finish create {mirror.mirror_topic}")
        await run_by_records(self._engine, lambda: list(self._store.mirrors.values()))
        self._running_links.start()
        self._background.spawn(self.events.run(), "engine events")
        self._background.every(_SYNC_TICK_S, self._sync.run_due, "topic config sync")
        self._background.every(LOOK_EVERY_S, self._copy_watch.look, "topics of the copies")
        self._background.every(_SYNC_TICK_S, self.reversals.look, "reverses that follow a promote")
        self._background.every(_LEASE_TICK_S, self.catch_ups.expire, "catch-up leases")
        self._background.every(_AUTO_CREATE_TICK_S, self.auto_create.run_due, "auto-create")

    def target_cluster_id(self) -> str:
        """Of the cluster that all links lead to."""
        return self._target.cluster_id()

    async def cluster_id_at(self, client: Mapping[str, str]) -> str:
        """Which cluster client properties lead to, before a link names it.

        Raises:
            BadRequest, SourceUnreachable: see `Sources.try_out`.
        """
        access = await self._sources.try_out(client)
        try:
            return access.cluster_id()
        finally:
            await access.close()

    async def close(self) -> None:
        """Stop the loops and running promotes. Sources, engine and store are the caller's."""
        self._running_links.close()
        await self._background.close()

    def status(self) -> StatusView:
        """Counts and states, without asking anybody."""
        store = self._store
        return StatusView(
            gateway_id=store.instance,
            target_cluster_id=self.target_cluster_id(),
            links={view.record.name: view.state for view in self.links.list()},
            mirrors=dict(Counter(self._shown(mirror).value for mirror in store.mirrors.values())),
            groups=dict(Counter(group.state.value for group in store.groups.values())),
            ports={node: record.port for node, record in store.ports.items()},
        )

    def numbers(self) -> ControlNumbers:
        """For the metrics."""
        store = self._store
        return ControlNumbers(
            links={name: name not in self._health or self._health[name].available for name in store.links},
            mirrors=[
                MirrorNumbers(
                    link,
                    topic,
                    self._shown(mirror),
                    self._engine.status(link, topic),
                    sum(self._topic_promoter.records_after_cutover(link, topic).values()),
                    sum(lost.count for lost in mirror.lost),
                    mirror.is_reverse,
                    sum(count for count in mirror.cutover.not_mirrored if count > 0),
                    state_since_ms=mirror.state_since_ms,
                    partition_count=len(mirror.starts),
                    translated=mirror.mode is MirrorMode.TRANSLATE,
                    readable=mirror.readable or written_on_target(mirror),
                    error=mirror.error,
                    promote_failed=self.mirrors.promote_failed(link, topic),
                    retries_unknown=len(mirror.cutover.retries_unknown),
                    catch_up=self.catch_ups.of(link, topic),
                    set_back=len(self._drift.of(mirror)),
                    transition_errors=len(self.mirrors.transition_errors(mirror)),
                )
                for (link, topic), mirror in store.mirrors.items()
            ],
            groups=[self._group_numbers(link, name, group) for (link, name), group in store.groups.items()],
            link_numbers=[self._link_numbers(link) for link in store.links.values()],
        )

    def _shown(self, mirror: MirrorRecord) -> MirrorState:
        link = self._store.links.get(mirror.link)
        return shown(mirror, link_paused=link is not None and parse(link.configs).paused)

    async def _first_contact(self, link: LinkRecord) -> None:
        """Learn whether the source is there, unless the engine has told meanwhile."""
        try:
            await self._sources.reach(link)
        except ControlError as exc:
            if link.name in self._store.links:  # the engine says when it counts as lost
                _log.warning("source not reached yet", link=link.name, reason=str(exc))
            return
        self._tasks.succeeded(link.name, LinkTask.CHECK_AVAILABILITY)
        self._health.setdefault(link.name, LinkHealth(True, self._now_ms()))

    def _link_numbers(self, link: LinkRecord) -> LinkNumbers:
        health = self._health.get(link.name, LinkHealth(True, link.created_ms))
        return LinkNumbers(
            link=link.name,
            state="PAUSED" if parse(link.configs).paused else health.state,
            state_since_ms=health.since_ms,
            error="" if health.available else health.code.value,
            tasks=self._tasks.of(link.name),
            auto_created=self.auto_create.counted(link.name),
        )

    def _group_numbers(self, link: str, group: str, record: GroupRecord) -> GroupNumbers:
        reports, key = self.group_reports, (link, group)
        sync = reports.offset_sync.get(key)
        lags = reports.lags.get(key, Lags({}, {}))
        waiters, now = self._gates.waiters(group), self.clock()
        return GroupNumbers(
            link,
            group,
            record.state.value,
            len(waiters),
            reports.members_after_promote.get(key, 0),
            commits_after_promote=reports.commits_after_promote.get(key, 0),
            synced_ms=None if sync is None else sync.synced_ms,
            sync_lag=0 if sync is None else sync.behind,
            held_back=0 if sync is None else len(sync.held_back),
            sync_committed=0 if sync is None else sync.committed,
            sync_errors=0 if sync is None else sync.errors,
            sync_round_s=0.0 if sync is None else sync.round_s,
            sync_failing=sync is not None and bool(sync.error),
            state_since_ms=record.state_since_ms,
            carried=len(record.offsets),
            members=None if record.state is GroupState.PROMOTED else reports.members_on_source.get(key),
            longest_wait_s=max((now - waiter.since for waiter in waiters), default=0.0),
            source_lag=lags.source,
            target_lag=lags.target,
        )
