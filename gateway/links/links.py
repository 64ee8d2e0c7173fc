"""Operations on cluster links."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.errors import BadRequest, Conflict
from gateway.groups.reports import GroupReports
from gateway.kafka.rules.names import bad_name
from gateway.links.checks import LinkChecks, has_credentials, parsed
from gateway.links.rules.update import Remains, left_behind, why_schemas_stay
from gateway.mirror.interface import MirrorEngine
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.operations.link_tasks import LinkTask, LinkTasks, TaskStatus
from gateway.operations.records import Records
from gateway.operations.secrets.rules.references import shown
from gateway.operations.sources import LinkHealth, Sources
from gateway.schemas.rules.remember import of_link
from gateway.state import link_config
from gateway.state.codec import Record
from gateway.state.mirror_states import shown as mirror_shown
from gateway.state.records import (
    GroupRecord,
    GroupState,
    LinkRecord,
    MirrorRecord,
    MirrorState,
    OriginRecord,
    SequenceRecord,
)
from gateway.state.schemas.registry_properties import REGISTRY_PROPERTIES
from gateway.transport.locks import KeyedLocks

__all__ = ["LinkView", "Links", "has_credentials"]

_log = structlog.get_logger("lockgate.control")

NO_ERROR = "NO_ERROR"


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """`refusal`: why the link is not deleted, '' when it would be."""

    link: str
    refusal: str
    remains: Sequence[Remains]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """A link as shown. `state` under Confluent's names; secrets of `client` are hidden.

    `error_code`: NO_ERROR, or Confluent's word for `error`. `tasks`: what it does beside mirroring. `groups_held`:
    groups without a record whose requests wait for what its source says of them; `groups_held_reason`: why it does not,
    of one of them.
    """

    record: LinkRecord
    state: str
    state_since_ms: int
    error: str
    client: Mapping[str, str]
    configs: Mapping[str, str]
    mirror_counts: Mapping[str, int]
    error_code: str = NO_ERROR
    tasks: Sequence[TaskStatus] = ()
    groups_held: int = 0
    groups_held_reason: str = ""


class Links:
    """Create, list, describe, delete."""

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        target: ClusterAccess,
        health: dict[str, LinkHealth],
        engine: MirrorEngine,
        publisher: RoutingPublisher,
        progress: MirrorProgress,
        locks: KeyedLocks,
        deleted: DeletedMirrors,
        checks: LinkChecks,
        tasks: LinkTasks,
        reports: GroupReports,
    ) -> None:
        """`health`: by link name; written here as links come and go, and by the engine's events. `reports`: by those
        that look after groups."""
        self._records = records
        self._sources = sources
        self._target = target
        self._health = health
        self._engine = engine
        self._publisher = publisher
        self._progress = progress
        self._locks = locks
        self._deleted = deleted
        self._checks = checks
        self._tasks = tasks
        self._reports = reports

    async def create(self, name: str, properties: Mapping[str, str], *, validate_only: bool = False) -> LinkView:
        """Create a link. `properties`: client properties for the source and link options, in one mapping.

        `validate_only`: everything is tried, nothing is stored; the view is of the link as it would be.

        Raises:
            BadRequest: bad name, property or option; or the source is the target itself; or clients would gain rights.
            Conflict: a link of this name exists.
            SourceUnreachable, TargetUnreachable: the source, or the target, did not answer.
        """
        problem = bad_name(name)
        if problem:
            raise BadRequest(f"link name: {problem}")
        configs = {key: value for key, value in properties.items() if key in link_config.OPTION_NAMES}
        registries = {key: value for key, value in properties.items() if key in REGISTRY_PROPERTIES}
        client = {key: value for key, value in properties.items() if key not in {*configs, *registries}}
        config = parsed(configs)
        registries = self._checks.registries(name, config, registries)
        self._checks.require_login(config, client)
        async with self._locks.hold(f"link/{name}"):
            self._require_absent(name)
            access = await self._sources.try_out(name, client)
            try:
                await self._checks.require_rights(name, config, client, access)
                made = self._made(name, client, configs, access.cluster_id())
                record = replace(made, registries=registries)
                if validate_only:
                    await access.close()
                    return self.view(record)
                record = await self._store(record)
            except BaseException:
                await access.close()
                raise
            self._sources.adopt(record, access)
            self._health[name] = LinkHealth(True, self._records.now_ms())
            self._tasks.succeeded(name, LinkTask.CHECK_AVAILABILITY)
            await self._engine.start_link(record)
        _log.info("link created", link=name, source=client["bootstrap.servers"], cluster_id=record.source_cluster_id)
        return self.view(record)

    def list(self) -> list[LinkView]:
        """All links, by name."""
        return [self.view(self._records.store.links[name]) for name in sorted(self._records.store.links)]

    def describe(self, name: str) -> LinkView:
        """One link; NotFound if there is none."""
        return self.view(self._records.link(name))

    async def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a link with the records of its mirrors and groups; topics stay as they are.

        Without `force` only when nothing is lost by it: every mirror STOPPED, long enough ago that no producer
        retries what was mirrored, every group PROMOTED, and no subject of the target's registry in mode IMPORT. With
        it, mirroring just ends: what clients of the gateway write to those topics from then on goes to the target,
        gated groups read there from wherever the target has them, and subjects stay in their mode. A running promote
        is never cut off.

        Raises:
            NotFound: no such link.
            Conflict: with the reason.
        """
        self._records.link(name)
        async with self._locks.hold(f"link/{name}", f"acls/{name}", f"schemas/{name}"):
            link = self._records.link(name)
            mirrors, groups = self._mirrors_of(name), self._groups_of(name)

            def still_allowed() -> None:
                if (mirrors, groups) != (self._mirrors_of(name), self._groups_of(name)):
                    raise Conflict(f"link '{name}': a mirror or a group of it was changed meanwhile; try again")
                reason = self._why_not_deleted(name, mirrors, groups, force=force)
                if reason:
                    raise Conflict(f"link '{name}': {reason}")

            still_allowed()
            if link.link_id not in self._records.store.origins:  # one that an older version made
                origin = OriginRecord(link.link_id, name, link.source_cluster_id, link.created_ms)
                await self._records.store.put(origin, guard=still_allowed)
            acls = self._records.store.acls.get(name, {})  # the ACLs stay: they are the target's own from now on
            schemas = self._records.store.schemas.get(name, {})  # so do schemas
            changes: list[Record] = [*mirrors, *groups, *acls.values(), *schemas.values(), link]
            await self._records.store.delete(*changes, guard=still_allowed)
            await self._engine.stop_link(name)
            await self._sources.remove(name)
            self._health.pop(name, None)
            self._tasks.forget(name)
            for mirror in mirrors:
                self._publisher.forget(mirror.mirror_topic)
                self._progress.forget(mirror.mirror_topic)
                self._deleted.tell(mirror)
        _log.info("link deleted", link=name, mirrors=len(mirrors), groups=len(groups), force=force)

    def plan_delete(self, name: str, *, force: bool = False) -> DeletePlan:
        """What `delete` would leave, and why it would be refused now; nothing is changed. NotFound as there."""
        self._records.link(name)
        mirrors, groups = self._mirrors_of(name), self._groups_of(name)
        refusal = self._why_not_deleted(name, mirrors, groups, force=force)
        return DeletePlan(name, refusal, left_behind(mirrors, groups, self._imported(name)))

    def _why_not_deleted(
        self, name: str, mirrors: Sequence[MirrorRecord], groups: Sequence[GroupRecord], *, force: bool
    ) -> str:
        reason = _why_not_deleted(mirrors, groups, self._retried_s(mirrors), force=force)
        return reason or ("" if force else why_schemas_stay(name, self._imported(name)))

    def _imported(self, link: str) -> Sequence[str]:
        """Subjects of the target's registry that the link keeps in mode IMPORT."""
        of_this = of_link(self._records.store.schemas.get(link, {}), self._records.link(link).link_id)
        return sorted(subject for subject, record in of_this.items() if record.imports and not record.promoted)

    def _retried_s(self, mirrors: Sequence[MirrorRecord]) -> float:
        return max((self._publisher.retried_s(mirror.mirror_topic) for mirror in mirrors), default=0.0)

    def _mirrors_of(self, link: str) -> Sequence[MirrorRecord]:
        return [mirror for key, mirror in self._records.store.mirrors.items() if key[0] == link]

    def _groups_of(self, link: str) -> Sequence[GroupRecord]:
        return [group for key, group in self._records.store.groups.items() if key[0] == link]

    def view(self, link: LinkRecord) -> LinkView:
        """The link as shown."""
        health = self._health.get(link.name, LinkHealth(True, link.created_ms))
        paused = link_config.parse(link.configs).paused
        held = self._reports.held_by(link.name)
        states = Counter(mirror_shown(mirror, link_paused=paused).value for mirror in self._mirrors_of(link.name))
        return LinkView(
            record=link,
            state="PAUSED" if paused else health.state,
            state_since_ms=health.since_ms,
            error="" if health.available else health.message,
            error_code=NO_ERROR if health.available else health.code,
            tasks=self._tasks.of(link.name),
            client={**shown(link.client), **shown(link.registries)},
            configs=link_config.with_defaults(link.configs),
            mirror_counts=dict(states),
            groups_held=len(held),
            groups_held_reason=next((f"group '{group}': {reason}" for group, reason in held.items()), ""),
        )

    def _require_absent(self, name: str) -> None:
        if name in self._records.store.links:
            raise Conflict(f"link '{name}' exists already")

    def _made(self, name: str, client: Mapping[str, str], configs: Mapping[str, str], cluster_id: str) -> LinkRecord:
        """The record, without its id. Raises as `LinkChecks.require_source` and `LinkChecks.sealed` do."""
        self._checks.require_source(client, cluster_id)
        return LinkRecord(
            name=name,
            link_id=0,
            source_cluster_id=cluster_id,
            client=self._checks.sealed(name, client),
            configs=link_config.as_stored(configs),
            created_ms=self._records.now_ms(),
        )

    async def _store(self, made: LinkRecord) -> LinkRecord:
        async with self._locks.hold("sequence/link"):
            last = self._records.store.sequences.get("link", SequenceRecord("link", 0)).last
            record = replace(made, link_id=last + 1)
            origin = OriginRecord(record.link_id, record.name, record.source_cluster_id, record.created_ms)
            await self._records.store.put(
                record, SequenceRecord("link", last + 1), origin, guard=lambda: self._require_absent(made.name)
            )
        return record


def _why_not_deleted(
    mirrors: Sequence[MirrorRecord], groups: Sequence[GroupRecord], retried_s: float, *, force: bool
) -> str:
    """Why a link with these mirrors and groups cannot be deleted; '' when it can."""
    for mirror in mirrors:
        if mirror.state is MirrorState.PENDING_STOPPED:
            return f"mirror topic '{mirror.mirror_topic}' is being promoted; wait for its end"
        if mirror.state is MirrorState.PENDING_SETUP_FOR_RESTORE:
            return f"mirror topic '{mirror.mirror_topic}' is being restored; wait for its end"
    if force:
        return ""
    live = [mirror for mirror in mirrors if mirror.state is not MirrorState.STOPPED]
    if live:
        return (
            f"{len(live)} mirror topic(s) are not STOPPED, such as '{live[0].mirror_topic}' ({live[0].state}); "
            "promote them first, or use force"
        )
    waiting = [group for group in groups if group.state is not GroupState.PROMOTED]
    if waiting:
        return (
            f"{len(waiting)} mirror group(s) are not PROMOTED, such as '{waiting[0].group}' ({waiting[0].state}); "
            "their offsets would be lost; promote them first, or use force"
        )
    if retried_s > 0:
        return (
            "producers may still retry batches from before the last promote, which only the link's records tell "
            f"from new ones; wait {math.ceil(retried_s / 60)} min, or use force"
        )
    return ""
