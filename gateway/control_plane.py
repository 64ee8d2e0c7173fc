"""The control plane as one object: operations, engine events, loops, and what is rebuilt at start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from gateway.access.check import AccessCheck
from gateway.control_numbers import ControlNumbersReader
from gateway.control_operations import (
    auto_create,
    catch_ups,
    copy_watch,
    engine_events,
    groups,
    link_operations,
    migrations,
    mirror_creator,
    mirror_deletion,
    mirror_repair,
    mirrors,
    running_links,
    users_and_quotas,
    ways_back,
)
from gateway.control_parts import ControlParts, config_sync
from gateway.cutover.dry_runs import DryRuns
from gateway.cutover.failback.operations import Failbacks
from gateway.cutover.failback.reversals import Reversals
from gateway.cutover.failback.undo import Undos
from gateway.cutover.rehearsals import Rehearsals, RehearsesPromotes
from gateway.cutover.spent_tables import LOOK_EVERY_S as SPENT_EVERY_S
from gateway.cutover.spent_tables import ForgetsSpentTables
from gateway.errors import ControlError
from gateway.groups.reports import GroupReports
from gateway.migration.client_errors import LOOK_EVERY_S as CLIENT_ERRORS_EVERY_S
from gateway.migration.discovery import Discovery
from gateway.migration.history import SAMPLE_EVERY_S
from gateway.migration.keeps import UndoRetention
from gateway.migration.ready import JUDGE_EVERY_S
from gateway.migration.rehearse import LOOK_EVERY_S as REHEARSALS_EVERY_S
from gateway.migration.rehearse import MigrationRehearsals
from gateway.migration.reports import MigrationReports
from gateway.migration.run import LOOK_EVERY_S as MIGRATIONS_EVERY_S
from gateway.operations.link_tasks import LinkTask
from gateway.operations.open_transactions import TransactionsView
from gateway.operations.partners import GroupPromoter
from gateway.operations.running_mirrors import run_by_records, run_links_by_records
from gateway.operations.sources import LinkHealth
from gateway.state.records import LinkRecord
from gateway.state.topic import TOPIC
from gateway.state.views import StateViews
from gateway.telemetry.numbers import ControlNumbers
from gateway.topics.copy_watch import LOOK_EVERY_S
from gateway.topics.failback_epochs import LOOK_EVERY_S as FORGET_EVERY_S
from gateway.topics.failback_epochs import ForgetsFailbackEpochs
from gateway.topics.measured_create import CreateEnded, nobody_listens
from gateway.topics.messages import MirrorMessages
from gateway.topics.plan import PlanStart
from gateway.topics.promote_plan import PromotePlanner

_TICK_S = 1.0
"""How often the loops look whether something is due."""
_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """The gateway at a glance. `gateway` and `leader` are names in the fleet. `fleet_trouble`: why the fleet's
    coordinator does not agree with it; '' while it does."""

    gateway_id: str
    gateway: str = ""
    leader: str = ""
    target_cluster_id: str
    links: dict[str, str]  # name -> state
    mirrors: dict[str, int]  # state -> count
    groups: dict[str, int]  # state -> count
    ports: dict[int, int]  # node id -> listener port
    fleet_trouble: str = ""


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
        topic_promoter: RehearsesPromotes,
        group_promoter: GroupPromoter,
        group_reports: GroupReports,
        failbacks: Failbacks,
        plan_start: PlanStart,
        state_topic: str = TOPIC,
        on_create_ended: CreateEnded = nobody_listens,
    ) -> None:
        """`group_reports`: written by those that look after groups. `on_create_ended`: told of creates of mirrors."""
        self._parts = parts
        self._store = parts.records.store
        self.clock, self.publisher = parts.clock, parts.publisher
        self.failbacks = failbacks
        self.group_reports = group_reports
        creator = mirror_creator(parts, plan_start, state_topic, on_create_ended)
        self.links, self.link_updates = link_operations(parts, group_reports)
        self.catch_ups = catch_ups(parts)
        self.mirrors = mirrors(
            parts,
            creator=creator,
            catch_ups=self.catch_ups,
            promoter=topic_promoter,
            failbacks=failbacks,
            failback_waits=lambda link, topic: (
                failbacks.waiting_for(link, topic)
                or self.reversals.waiting_for(link, topic)
                or self.undos.waiting_for(link, topic)
            ),
        )
        self.reversals = Reversals(records=parts.records, mirrors=self.mirrors, failbacks=failbacks, clock=parts.clock)
        self.rehearsals = Rehearsals(self.mirrors, topic_promoter, parts.background)
        self.promote_plans = PromotePlanner(parts.records, self.mirrors, topic_promoter)
        self.messages = MirrorMessages(
            records=parts.records, sources=parts.sources, target=parts.target, maps=parts.maps
        )
        self.mirror_deletion = mirror_deletion(parts, self.mirrors, self.catch_ups, failbacks)
        self.mirror_repair = mirror_repair(parts, creator)
        self.dry_runs = DryRuns(records=parts.records, promotes=self.promote_plans, failbacks=failbacks)
        self.groups = groups(parts, group_promoter, group_reports)
        self.migrations, self._migration_run, self.readiness, self._history, self._client_errors = migrations(
            parts, self.mirrors, self.groups, group_promoter, group_reports
        )
        keeps = UndoRetention(parts.records, self.migrations)
        self.undos = Undos(
            records=parts.records,
            mirrors=self.mirrors,
            failbacks=failbacks,
            lifted=parts.lifted,
            promoter=topic_promoter,
            tells=keeps.told,
            claimed=keeps.running,
            clock=parts.clock,
        )
        self.migration_undo, self.promote_call_offs = ways_back(
            parts, self.migrations, self.mirrors, self.groups, self.undos, keeps
        )
        self.migration_rehearsals = MigrationRehearsals(
            records=parts.records, migrations=self.migrations, rehearsals=self.rehearsals
        )
        self.migration_reports = MigrationReports(
            records=parts.records,
            target=parts.target,
            migrations=self.migrations,
            mirrors=self.mirrors,
            readiness=self.readiness,
        )
        self.events = engine_events(parts)
        self.auto_create = auto_create(parts, creator)
        self.acl_sync = parts.acl_sync
        self.schema_sync = parts.schema_sync
        self.schema_gate = parts.schema_gate
        self.schema_check = parts.schema_gate.checks
        self.discovery = Discovery(records=parts.records, views=parts.views)
        self.access_check = AccessCheck(records=parts.records, views=parts.views, target=parts.target)
        self.transactions = TransactionsView(parts.records, parts.views, parts.target)
        self.users, self.quotas = users_and_quotas(parts)
        self._copy_watch = copy_watch(parts)
        self._failback_epochs = ForgetsFailbackEpochs(records=parts.records, target=parts.target)
        self._spent_tables = ForgetsSpentTables(records=parts.records, publisher=parts.publisher, locks=parts.locks)
        self._sync = config_sync(parts)
        self._running_links = running_links(parts)
        self._numbers = ControlNumbersReader(
            parts,
            mirrors=self.mirrors,
            catch_ups=self.catch_ups,
            auto_create=self.auto_create,
            promoter=topic_promoter,
            reports=group_reports,
            readiness=self.readiness,
            migrations=self.migrations,
            client_errors=self._client_errors,
        )

    def restore(self) -> None:
        """What must be so before a client is let in: routes, gates as the records say, source clusters known."""
        parts = self._parts
        parts.sources.only(self._store.links)
        for link in self._store.links.values():
            parts.sources.add(link)
        parts.gates.term_begins()
        self.publisher.refresh()

    async def start(self) -> None:
        """Start links and mirrors as their records say, and the loops. After `restore`.

        A source that does not answer stops nothing: its mirrors go on when it does.
        """
        store, engine, spawn = self._store, self._parts.engine, self._parts.background.spawn
        await run_links_by_records(engine, lambda: store.links)
        for link in list(store.links.values()):
            spawn(self._first_contact(link), f"first contact {link.name}")
        for mirror in list(store.mirrors.values()):
            if mirror.deletion:
                finish_delete = self.mirror_deletion.finish(mirror.link, mirror.mirror_topic)
                spawn(finish_delete, f"finish delete {mirror.mirror_topic}")
            elif not mirror.created:
                finish_create = self.mirrors.finish_create(mirror.link, mirror.mirror_topic)
                spawn(finish_create, f"finish create {mirror.mirror_topic}")
        await run_by_records(engine, lambda: list(store.mirrors.values()))
        self._running_links.start()
        spawn(self.events.run(), "engine events")
        self._begin_loops()

    def _begin_loops(self) -> None:
        every = self._parts.background.every
        every(_TICK_S, self._sync.run_due, "topic config sync")
        every(LOOK_EVERY_S, self._copy_watch.look, "topics of the copies")
        every(FORGET_EVERY_S, self._failback_epochs.look, "failback epochs of deleted mirrors")
        every(SPENT_EVERY_S, self._spent_tables.look, "producer tables that nobody needs")
        every(_TICK_S, self.reversals.look, "reverses that follow a promote")
        every(_TICK_S, self.undos.look, "mirrors back that are kept for an undo")
        every(_TICK_S, self.catch_ups.expire, "catch-up leases")
        every(_TICK_S, self.auto_create.run_due, "auto-create")
        every(_TICK_S, self.acl_sync.run_due, "ACL sync")
        every(_TICK_S, self.schema_sync.run_due, "schema sync")
        every(_TICK_S, self.schema_gate.run_due, "schema gate")
        every(_TICK_S, self._parts.missing_ids.run_due, "schema ids that mirrors wait for")
        every(MIGRATIONS_EVERY_S, self._migration_run.run_due, "migrations")
        every(CLIENT_ERRORS_EVERY_S, self._client_errors.look, "answers to clients of migrations")
        every(REHEARSALS_EVERY_S, self.migration_rehearsals.run_due, "rehearsals of migrations")
        every(SAMPLE_EVERY_S, self._history.look, "history of mirrors")
        every(JUDGE_EVERY_S, self.readiness.look, "readiness of migrations")

    @property
    def views(self) -> StateViews:
        """The records, read only."""
        return self._store

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._parts.records.now_ms()

    def target_cluster_id(self) -> str:
        """Of the cluster that all links lead to."""
        return self._parts.target.cluster_id()

    async def cluster_id_at(self, link: str, client: Mapping[str, str]) -> str:
        """Which cluster client properties lead to, before the link of this name is stored.

        Raises:
            BadRequest, SourceUnreachable: see `Sources.try_out`.
        """
        access = await self._parts.sources.try_out(link, client)
        try:
            return access.cluster_id()
        finally:
            await access.close()

    async def close(self) -> None:
        """Stop the loops and running promotes. Sources, engine and store are the caller's."""
        self._running_links.close()
        await self._parts.background.close()

    def status(self) -> StatusView:
        """Counts and states, without asking anybody."""
        store = self._store
        return StatusView(
            gateway_id=store.instance,
            target_cluster_id=self.target_cluster_id(),
            links={view.record.name: view.state for view in self.links.list()},
            mirrors=dict(Counter(self._numbers.shown(mirror).value for mirror in store.mirrors.values())),
            groups=dict(Counter(group.state.value for group in store.groups.values())),
            ports={node: record.port for node, record in store.ports.items()},
        )

    def numbers(self) -> ControlNumbers:
        """For the metrics."""
        return self._numbers.read()

    async def _first_contact(self, link: LinkRecord) -> None:
        """Learn whether the source is there, unless the engine has told meanwhile."""
        parts = self._parts
        try:
            await parts.sources.reach(link)
        except ControlError as exc:
            if link.name in self._store.links:  # the engine says when it counts as lost
                _log.warning("source not reached yet", link=link.name, reason=str(exc))
            return
        parts.tasks.succeeded(link.name, LinkTask.CHECK_AVAILABILITY)
        parts.health.setdefault(link.name, LinkHealth(True, parts.records.now_ms()))
