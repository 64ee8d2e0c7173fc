"""The control plane in numbers, read from records and from what its operations have at hand: for a scrape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from gateway.control_parts import ControlParts
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.groups.gate.rules.gates import Waiter, members_of
from gateway.groups.reports import GroupReports, Lags
from gateway.kafka.groups import MemberView
from gateway.migration.client_errors import WatchedErrors
from gateway.migration.migrations import Migrations
from gateway.migration.ready import ReadinessCheck
from gateway.migration.run import STOPPED_BY_RULE
from gateway.operations.partners import TopicPromoter
from gateway.operations.sources import LinkHealth
from gateway.schemas.schema_sync import SchemaCounts
from gateway.state.link_config import parse
from gateway.state.migration_records import MigrationRecord
from gateway.state.mirror_states import shown
from gateway.state.records import GroupRecord, GroupState, LinkRecord, MirrorMode, MirrorRecord, MirrorState, Undo
from gateway.telemetry.numbers import (
    ClientSeen,
    ControlNumbers,
    GroupNumbers,
    LinkNumbers,
    MigrationNumbers,
    MirrorNumbers,
)
from gateway.topics.auto_create import AutoCreate
from gateway.topics.catch_up import CatchUps
from gateway.topics.mirrors import Mirrors
from gateway.topics.rules.at_risk import records_at_risk

_CLIENTS: Final = 50  # of a group, by name


class ControlNumbersReader:
    """`read` is called at a scrape. It asks nobody, and a number costs no more than a look-up."""

    def __init__(
        self,
        parts: ControlParts,
        *,
        mirrors: Mirrors,
        catch_ups: CatchUps,
        auto_create: AutoCreate,
        promoter: TopicPromoter,
        reports: GroupReports,
        readiness: ReadinessCheck,
        migrations: Migrations,
        client_errors: WatchedErrors,
    ) -> None:
        self._store = parts.records.store
        self._engine = parts.engine
        self._health = parts.health
        self._tasks = parts.tasks
        self._drift = parts.drift
        self._differences = parts.differences
        self._acl_sync = parts.acl_sync
        self._schema_sync = parts.schema_sync
        self._schema_gate = parts.schema_gate
        self._gates = parts.gates
        self._clock = parts.clock
        self._pauses = parts.pauses_seen
        self._mirrors = mirrors
        self._catch_ups = catch_ups
        self._auto_create = auto_create
        self._promoter = promoter
        self._reports = reports
        self._readiness = readiness
        self._migrations = migrations
        self._client_errors = client_errors

    def read(self) -> ControlNumbers:
        """Of all links, mirror topics and mirror groups."""
        store, health = self._store, self._health
        return ControlNumbers(
            links={name: name not in health or health[name].available for name in store.links},
            mirrors=[self._mirror(mirror) for mirror in store.mirrors.values()],
            groups=[self._group(link, name, group) for (link, name), group in store.groups.items()],
            link_numbers=[self._link(link) for link in store.links.values()],
            migrations=[self._migration(record) for record in store.migrations.values()],
        )

    def _migration(self, record: MigrationRecord) -> MigrationNumbers:
        errors = self._client_errors.of(record.name)
        total = None if errors is None else errors.total
        return MigrationNumbers(
            migration=record.name,
            link=record.link,
            state=STOPPED_BY_RULE if record.stopped_by else record.state.value,
            readiness=self._readiness.last.get(record.name, {}),
            answers_looked_at=None if total is None else total.samples,
            client_errors_percent=None if total is None else total.percent,
            problems=self._migrations.problems.get(record.name, ()),
            refused=self._migrations.failures.get(record.name, {}),
        )

    def shown(self, mirror: MirrorRecord) -> MirrorState:
        """The state of a mirror topic as people see it."""
        link = self._store.links.get(mirror.link)
        return shown(mirror, link_paused=link is not None and parse(link.configs).paused)

    def _mirror(self, mirror: MirrorRecord) -> MirrorNumbers:
        link, topic = mirror.link, mirror.mirror_topic
        partitions, late = self._engine.status(mirror), self._promoter.records_after_cutover(link, topic)
        return MirrorNumbers(
            link,
            topic,
            self.shown(mirror),
            partitions,
            None if late is None else sum(late.values()),
            sum(lost.count for lost in mirror.lost),
            mirror.is_reverse,
            sum(count for count in mirror.cutover.not_mirrored if count > 0),
            state_since_ms=mirror.state_since_ms,
            partition_count=len(mirror.starts),
            translated=mirror.mode is MirrorMode.TRANSLATE,
            readable=mirror.readable or written_on_target(mirror),
            error=mirror.error,
            promote_failed=self._mirrors.promote_failed(link, topic),
            retries_unknown=len(mirror.cutover.retries_unknown),
            catch_up=self._catch_ups.of(link, topic),
            set_back=len(self._drift.of(mirror)),
            warnings=len(self._differences.of(mirror)),
            transition_errors=len(self._mirrors.transition_errors(mirror)),
            undo_until_ms=mirror.cutover.undo_until_ms
            if mirror.cutover.undo is Undo.OPEN and mirror.is_reverse
            else None,
            at_risk=records_at_risk(mirror, partitions),
            undo_refused=mirror.cutover.undo is Undo.REFUSED,
            last_pause=self._pauses.last(link, topic),
        )

    def _link(self, link: LinkRecord) -> LinkNumbers:
        health = self._health.get(link.name, LinkHealth(True, link.created_ms))
        return LinkNumbers(
            link=link.name,
            state="PAUSED" if parse(link.configs).paused else health.state,
            state_since_ms=health.since_ms,
            error="" if health.available else health.code.value,
            groups_held=len(self._reports.held_by(link.name)),
            tasks=self._tasks.of(link.name),
            auto_created=self._auto_create.counted(link.name),
            acls=self._acl_sync.counted(link.name),
            schemas=self._schemas(link.name),
        )

    def _schemas(self, link: str) -> SchemaCounts | None:
        counts = self._schema_sync.counted(link)
        return None if counts is None else replace(counts, unresolved=self._schema_gate.counted(link))

    def _group(self, link: str, group: str, record: GroupRecord) -> GroupNumbers:
        reports, key = self._reports, (link, group)
        sync = reports.offset_sync.get(key)
        lags = reports.lags.get(key, Lags({}, {}))
        waiters = members_of(self._gates.waiters(group), by_commits_alone=reports.by_commits_alone.get(key, False))
        now = self._clock()
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
            clients=_clients(reports.who_on_source.get(key, ()), waiters),
        )


def _clients(on_source: Sequence[MemberView], waiters: Sequence[Waiter]) -> Sequence[ClientSeen]:
    """Each client once on either side, the first `_CLIENTS` of them."""
    there = (ClientSeen(one.client_id, one.host.removeprefix("/"), "source") for one in on_source)
    here = (ClientSeen(one.identity.client_id, one.identity.host, "gate") for one in waiters)
    return sorted({*islice(there, _CLIENTS), *islice(here, _CLIENTS)})[:_CLIENTS]
