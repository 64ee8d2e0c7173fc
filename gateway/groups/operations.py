"""Operations on mirror groups. Promote and demote are the group promoter's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog

from gateway.errors import BadRequest, Conflict, ControlError, NotFound
from gateway.groups.gate.rules.gates import GroupGates, Waiter, members_of
from gateway.groups.reports import GroupReports
from gateway.groups.rules.kind import kind_of
from gateway.groups.rules.left_behind import LeftBehind, left_behind, to_remove
from gateway.groups.rules.offset_sync_status import OffsetSyncStatus
from gateway.kafka.commits import Committed
from gateway.kafka.groups import DEAD, GroupView
from gateway.kafka.topic_partition import TopicPartition
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.door import Door
from gateway.operations.partners import GroupPlan, GroupPromoter
from gateway.operations.records import Records
from gateway.operations.sources import VIEW_S, Sources, SourcesForViews
from gateway.state.link_config import parse
from gateway.state.records import GroupRecord, GroupState, LinkRecord
from gateway.transport.locks import KeyedLocks
from protocol.errors import error_name

_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorGroupView:
    """A mirror group as shown.

    `source` and `offsets` (committed on the source) are None when the source did not tell; `unknown` then says why.
    `waits_for`: why it is not promoted yet. `members_after_promote`: a promoted group has members on the source
    again. `sync`:
    how its offset sync stands, None where there is none. `commits_after_promote`: partitions for which offsets were
    committed on the source since the promote. `target`: the group there, when one is described and the target tells.
    """

    record: GroupRecord
    source: GroupView | None
    waiting: Sequence[Waiter]
    waits_for: str = ""
    offsets: Mapping[TopicPartition, Committed] | None = None
    unknown: str = ""
    sync: OffsetSyncStatus | None = None
    commits_after_promote: int = 0
    target: GroupView | None = None

    @property
    def members_after_promote(self) -> bool:
        """True when members turned up on the source after the promote."""
        return self.record.state is GroupState.PROMOTED and self.source is not None and bool(self.source.members)


class Removed(NamedTuple):
    """`error`: why the source did not remove it, '' when it did; None: it was not asked."""

    left_behind: LeftBehind
    error: str | None


class Groups:
    """Create, list, describe, promote, demote."""

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        views: SourcesForViews,
        gates: GroupGates,
        promoter: GroupPromoter,
        reports: GroupReports,
        locks: KeyedLocks,
        target: ClusterAccess,
        door: Door,
    ) -> None:
        self._records = records
        self._door = door
        self._store = records.store
        self._sources = sources
        self._views = views
        self._gates = gates
        self._promoter = promoter
        self._locks = locks
        self._target = target
        self._reports = reports

    async def create(self, link: str, group: str, *, validate_only: bool = False) -> MirrorGroupView:
        """Declare a group of the source a mirror group: gated on the target from now on.

        `group` is its name on the target: with `consumer.group.prefix.enable` the link's prefix and the source's name.
        `validate_only`: the source is asked, nothing is stored, no gate closes; the view is of what would be.

        Raises:
            BadRequest: no name, or one without the link's prefix.
            NotFound: no such link, or no such group on the source.
            Conflict: it is a mirror group already, of this link or another.
            SourceUnreachable: the source does not answer.
        """
        if not group:
            raise BadRequest("a group needs a name")
        record = self._records.link(link)
        source_group = parse(record.configs).source_group(group)
        if source_group is None:
            prefix = parse(record.configs).prefix
            raise BadRequest(f"mirror groups of link '{link}' are named '{prefix}' and the source group, not '{group}'")
        async with self._locks.hold(f"group/{group}"):
            self._require_absent(group)
            source = await self._on_source(record, source_group)
            created = GroupRecord(
                link=link,
                group=group,
                state_since_ms=self._records.now_ms(),
                source_group=source_group if source_group != group else "",
                kind=kind_of(source.type),
            )

            if validate_only:
                return MirrorGroupView(record=created, source=source, waiting=())

            def still_allowed() -> None:
                self._records.link(link)
                self._require_absent(group)

            await self._store.insert(created, guard=still_allowed)
        _log.info("mirror group declared", link=link, group=group)
        return MirrorGroupView(record=created, source=source, waiting=self._waiting(created))

    async def _on_source(self, link: LinkRecord, source_group: str) -> GroupView:
        """Raises NotFound, SourceUnreachable."""
        access = await self._sources.reach(link)
        with source_errors(link.name):
            source = await access.describe_group(source_group)
            if source.state == DEAD and not await access.committed_offsets(source_group):
                raise NotFound(f"group '{source_group}' does not exist on the source of link '{link.name}'")
        return source

    def records(self, link: str) -> Sequence[GroupRecord]:
        """The records of the link's mirror groups, in no order; NotFound if there is no such link."""
        self._records.link(link)
        return [record for key, record in self._store.groups.items() if key[0] == link]

    async def views(self, records: Sequence[GroupRecord]) -> Sequence[MirrorGroupView]:
        """Mirror groups as a list shows them: with their members on the source, without offsets."""
        return await asyncio.gather(*(self._view(record, with_offsets=False) for record in records))

    async def describe(self, link: str, group: str) -> MirrorGroupView:
        """One mirror group with its members on both sides, waiters and offsets."""
        record = self._record(link, group)
        view, there = await asyncio.gather(self._view(record, with_offsets=True), self._on_target(group))
        return replace(view, target=there)

    async def _on_target(self, group: str) -> GroupView | None:
        """None when the target does not tell."""
        try:
            with target_errors():
                async with asyncio.timeout(VIEW_S):
                    return await self._target.describe_group(group)
        except ControlError:
            return None

    async def promote(self, link: str, group: str, *, force: bool = False) -> MirrorGroupView:
        """Let the group read on the target, from exactly where it was on the source."""
        self._record(link, group)
        record = await self._promoter.promote(link, group, force=force)
        return await self._view(record, with_offsets=True)

    async def demote(self, link: str, group: str, *, force: bool = False) -> MirrorGroupView:
        """The failback from `promote`."""
        self._record(link, group)
        record = await self._promoter.demote(link, group, force=force)
        return await self._view(record, with_offsets=True)

    async def left_behind(self, link: str, group: str) -> Sequence[LeftBehind]:
        """The members on the source, and of which the process waits at the gateway by now.

        Raises:
            NotFound: no such mirror group. SourceUnreachable: the source does not answer.
        """
        record = self._record(link, group)
        access = await self._sources.reach(self._records.link(link))
        with source_errors(link):
            source = await access.describe_group(record.source_name)
        return left_behind(source.members, self._waiting(record))

    async def remove_members(
        self, link: str, group: str, member_ids: Sequence[str], *, force: bool = False, validate_only: bool = False
    ) -> Sequence[Removed]:
        """Remove members that did not leave from the group on the source; what they have read and committed stays.

        Args:
            member_ids: as the source has them; none: all whose process waits at the gateway.
            force: also those that nobody waits for.

        Raises:
            NotFound: no such mirror group, or member. SourceUnreachable. Conflict: a member's process is not known to
            be gone; nobody was removed.
        """
        record = self._record(link, group)
        chosen = to_remove(await self.left_behind(link, group), member_ids, force=force)
        if validate_only or not chosen:
            return [Removed(one, None) for one in chosen]
        access = await self._sources.reach(self._records.link(link))
        with source_errors(link), self._door.permit(record):
            codes = await access.remove_members(record.source_name, [one.member for one in chosen])
        for one in chosen:
            who = f"{one.member.client_id} ({one.member.host})"
            _log.info("member removed from the source", link=link, group=group, member=who)
        return [Removed(one, error_name(code) if (code := codes[one.member.member_id]) else "") for one in chosen]

    async def promote_plan(self, link: str, group: str, *, force: bool = False) -> GroupPlan:
        """What `promote` would meet now; NotFound as there."""
        self._record(link, group)
        return self._with_link(await self._promoter.promote_plan(link, group, force=force))

    async def demote_plan(self, link: str, group: str) -> GroupPlan:
        """What `demote` would meet now; NotFound as there."""
        self._record(link, group)
        return self._with_link(await self._promoter.demote_plan(link, group))

    def _with_link(self, plan: GroupPlan) -> GroupPlan:
        """What waits for a mirror waits for its link, too."""
        return replace(plan, waits_for=self._waits(plan.record.link, plan.waits_for))

    def _waits(self, link: str, waits_for: str) -> str:
        if waits_for and parse(self._records.link(link).configs).paused:
            return f"{waits_for}; its link is paused: lockgate link resume {link}"
        return waits_for

    def _record(self, link: str, group: str) -> GroupRecord:
        self._records.link(link)
        record = self._store.groups.get((link, group))
        if record is None:
            held = "; ".join(f"link '{name}': {reason}" for name, reason in self._reports.held.get(group, {}).items())
            told = f"; its requests wait, since nobody knows whether it is to be one: {held}" if held else ""
            undeclared = f": start a member at the gateway, or declare it: lockgate group create {group} --link {link}"
            raise NotFound(f"link '{link}' has no mirror group '{group}'{told or undeclared}")
        return record

    def _require_absent(self, group: str) -> None:
        for (link, name), record in self._store.groups.items():
            if name == group:
                raise Conflict(f"group '{group}' is already a mirror group of link '{link}' ({record.state})")

    def _waiting(self, record: GroupRecord) -> Sequence[Waiter]:
        by_commits_alone = self._reports.by_commits_alone.get((record.link, record.group), False)
        return members_of(self._gates.waiters(record.group), by_commits_alone=by_commits_alone)

    async def _view(self, record: GroupRecord, *, with_offsets: bool) -> MirrorGroupView:
        waiting = self._waiting(record)
        promoted = record.state is GroupState.PROMOTED
        key, reports = (record.link, record.group), self._reports
        waits_for = self._waits(record.link, self._promoter.waits_for(record.link, record.group))
        view = MirrorGroupView(
            record=record,
            source=None,
            waiting=waiting,
            waits_for=waits_for,
            sync=reports.offset_sync.get(key),
            commits_after_promote=reports.commits_after_promote.get(key, 0) if promoted else 0,
        )
        try:
            access = await self._views.reach(self._records.link(record.link))
            with source_errors(record.link):
                async with asyncio.timeout(VIEW_S):
                    source = await access.describe_group(record.source_name)
                    offsets = await access.committed_offsets(record.source_name) if with_offsets else None
        except ControlError as exc:
            return replace(view, unknown=str(exc))
        return replace(view, source=source, offsets=offsets)
