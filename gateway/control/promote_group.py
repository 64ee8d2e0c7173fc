"""Promotes and demotes mirror groups: gathers a snapshot, takes the one step `domain/group_promote.py` says, again.

Wiring (`app/term.py`):

    promoter = GroupPromotions(context, quiet_s=...)    # a domain.ports.GroupPromoter
    # `context` is the ControlContext: store, sources, target, gates, progress, background
    monitor = GroupMonitor(context, promoter)                                 # control/group_monitor.py
    monitor.start()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from gateway.control.context import ControlContext
from gateway.control.demote_group import demote_group
from gateway.control.errors import Conflict
from gateway.control.failover_group import GroupFailovers
from gateway.control.group_gather import GroupGatherer
from gateway.control.group_offsets import GroupOffsets
from gateway.control.group_progress import GroupProgress
from gateway.control.offsets_between import OffsetsBetween
from gateway.domain.group_promote import (
    GroupLimits,
    GroupStep,
    GroupStepKind,
    check_invariants,
    next_step,
    notes,
    said_of_cuts,
    same_on_source,
)
from gateway.domain.offset_map import Rule
from gateway.domain.offsets_between import is_final
from gateway.domain.records import CarriedOffset, GroupRecord, GroupState

POLL_S = 0.2
PATIENCE_S = 30.0
MARK_S = 1.0  # how long after the last look at the source a group may be marked as promoted
GONE_S = 15.0  # a source that has not answered for this long is not waited for by a group whose topics failed over
_READINGS = {GroupStepKind.READ_OFFSETS, GroupStepKind.READ_BACK}
_log = structlog.get_logger("lockgate.control")


class _LookedAway(Exception):
    """Too much time has passed since the source was looked at."""


class GroupPromotions:
    """Implements `domain.ports.GroupPromoter`. One promote or demote of a group at a time."""

    def __init__(
        self,
        context: ControlContext,
        *,
        quiet_s: float,
        clock: Callable[[], float] | None = None,
        offsets: GroupOffsets | None = None,
    ) -> None:
        self._context = context
        self._limits = GroupLimits(quiet_s)
        self._clock = clock = clock or context.clock
        self._offsets = offsets or GroupOffsets(context)
        self._gather = GroupGatherer(context, self._offsets, clock)
        self._progress: dict[tuple[str, str], GroupProgress] = {}
        self.failovers = GroupFailovers(context, self._offsets, self.progress_of, clock)

    def waits_for(self, link: str, group: str) -> str:
        """Why the group is not promoted yet, for `describe`; '' when nothing is known."""
        progress = self._progress.get((link, group))
        return "" if progress is None else progress.waits_for

    def progress_of(self, link: str, group: str) -> GroupProgress:
        """What is known of the group; whoever commits for it holds its `lock`."""
        return self._progress.setdefault((link, group), GroupProgress())

    async def promote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        """Promote now, at an operator's word.

        Raises:
            Conflict: it cannot be: members on the source, or the mirror does not come to its offsets.
            SourceUnreachable, TargetUnreachable: with the reason.
        """
        if self._record(link, group).state is GroupState.PROMOTED:
            raise Conflict(f"group '{group}' is promoted already")
        await self._run(link, group, requested=True, force=force, deadline=self._clock() + PATIENCE_S)
        record = self._record(link, group)
        if record.state is not GroupState.PROMOTED:
            raise Conflict(f"group '{group}' was not promoted: {self.waits_for(link, group)}")
        return record

    async def attempt(self, link: str, group: str) -> None:
        """Go as far as is possible by itself; called again and again by the monitor."""
        await self._run(link, group, requested=False, force=False, deadline=self._clock() + PATIENCE_S)
        gone_since = self.progress_of(link, group).unreachable_since
        if gone_since is not None and self._clock() - gone_since >= GONE_S:
            await self.failovers.attempt(link, group)

    async def _run(self, link: str, group: str, *, requested: bool, force: bool, deadline: float) -> None:
        progress, readings = self.progress_of(link, group), set[GroupStepKind]()
        async with progress.lock:
            progress.failure = ""
            if requested:
                progress.forget_offsets()
            await self._context.store.settled()  # a mark of before, of which nobody knows whether it was made
            while True:
                await self._gather.look(self._record(link, group), progress, force=force)
                record = await self._arrived(self._record(link, group), progress)
                snapshot = self._gather.snapshot(record, progress, requested=requested, force=force)
                step = next_step(snapshot, self._limits)
                check_invariants(snapshot, step)
                progress.waits_for = step.reason
                if step.kind is GroupStepKind.DONE:
                    return
                if step.kind is GroupStepKind.WAIT:
                    if record.state is GroupState.ACTIVE and (not requested or snapshot.members or progress.failure):
                        return
                    if self._clock() >= deadline:
                        progress.failure = step.reason
                    else:
                        await asyncio.sleep(POLL_S)
                    continue
                if step.kind in readings and self._clock() >= deadline:
                    progress.failure = "its offsets changed, or could not be read in time, again and again"
                    continue
                readings |= {step.kind} & _READINGS
                await self._take(record, progress, step)
                if step.kind is GroupStepKind.MARK_ACTIVE:
                    return

    def _record(self, link: str, group: str) -> GroupRecord:
        record = self._context.store.groups.get((link, group))
        if record is None:
            raise Conflict(f"mirror group '{group}' was deleted meanwhile")
        return record

    async def _arrived(self, record: GroupRecord, progress: GroupProgress) -> GroupRecord:
        """A demoted group that is back on the source, as a member or not, may be promoted by itself again."""
        if not record.demoted or not (progress.members or progress.memberless_at is not None):
            return record
        back = replace(record, demoted=False)
        await self._context.store.replace(record, back)
        return back

    async def late_commits(self, record: GroupRecord) -> int:
        """Partitions of a promoted group whose offset on the source is another than the one that was carried.

        Somebody still reads there, as a member or not. Raises ControlError when the source does not tell.
        """
        now, _ = await self._offsets.on_source(record)
        carried = {(o.topic, o.partition): o.source_offset for o in record.offsets}
        return sum(o.source_offset != carried.get((o.topic, o.partition), o.source_offset) for o in now)

    # -- steps ---------------------------------------------------------------------------------------------

    async def _take(self, record: GroupRecord, progress: GroupProgress, step: GroupStep) -> None:
        match step.kind:
            case GroupStepKind.MARK_PENDING:
                progress.forget_offsets()
                await self._offsets.store(record, GroupState.PENDING_PROMOTED)
            case GroupStepKind.MARK_ACTIVE:
                progress.forget_offsets()
                progress.empty_since = None
                await self._offsets.store(record, GroupState.ACTIVE, error_message=step.reason)
            case GroupStepKind.READ_OFFSETS:
                await self._read_offsets(record, progress)
            case GroupStepKind.COMMIT:
                await self._commit(record, progress)
            case GroupStepKind.READ_BACK:
                held = await self._offsets.on_target(record.group)
                again, _ = await self._offsets.on_source(record)
                if same_on_source(progress.offsets or (), again):
                    progress.offsets_at = self._clock()
                    progress.read_back = {key: (value.offset, value.metadata) for key, value in held.items()}
                else:  # a member came and left between two looks, or somebody commits without being a member
                    progress.forget_offsets()
                    progress.memberless_at = self._clock()
            case GroupStepKind.MARK_PROMOTED:
                await self._mark_promoted(record, progress)
            case _:
                pass  # CHECK_MEMBERS: members are asked for before every step

    async def _mark_promoted(self, record: GroupRecord, progress: GroupProgress) -> None:
        """The gate opens by the record. It is written with what the last look at the source found, or not at all."""
        offsets, looked_at = progress.offsets, progress.members_at

        def as_seen() -> None:
            if progress.members_at != looked_at or self._clock() - looked_at > MARK_S:
                raise _LookedAway
            if progress.mirrors_at < self._context.store.mirrors_grown_at:  # of one topic more there are no offsets
                raise _LookedAway

        try:
            await self._offsets.store(
                record, GroupState.PROMOTED, as_seen, offsets=offsets or (), note=progress.note, demoted=False
            )
        except _LookedAway:
            progress.forget_offsets()
        except BaseException:
            progress.forget_offsets()  # time has passed, and it is not promoted, as far as is known
            raise
        else:
            _log.info("group promoted", link=record.link, group=record.group, offsets=len(offsets or ()))

    async def _read_offsets(self, record: GroupRecord, progress: GroupProgress) -> None:
        if not progress.gated_everywhere:
            await self._context.fleet.read_by_all()  # nobody takes the group for one that has no gate
            progress.gated_everywhere = True
        mirrors_at = self._context.store.mirrors_grown_at
        offsets, left = await self._offsets.on_source(record)
        progress.mirrors_at = mirrors_at
        progress.offsets, progress.offsets_at = offsets, self._clock()
        progress.remember(offsets, progress.offsets_at)
        progress.maps = await OffsetsBetween(self._context, record.link).maps(offset.topic for offset in offsets)
        progress.ranges = await self._offsets.source_ranges(record, offsets)
        progress.note = notes(offsets, progress.ranges, left)
        if progress.note:
            _log.warning("offsets need a look", link=record.link, group=record.group, note=progress.note)

    def _is_early(self, link: str, offset: CarriedOffset, progress: GroupProgress) -> bool:
        """The map says that the mirror has not come to it, although it seemed so: the topic's mode has changed."""
        if offset.rule != Rule.BEYOND_END or is_final(self._context.mirror(link, offset.topic)):
            return False
        _, end = progress.ranges.get((offset.topic, offset.partition), (0, offset.source_offset))
        return offset.source_offset <= end

    async def _commit(self, record: GroupRecord, progress: GroupProgress) -> None:
        # Not before: only now the mirror has what the offsets point at.
        progress.offsets = await OffsetsBetween(self._context, record.link).to_target(progress.offsets or ())
        if any(self._is_early(record.link, offset, progress) for offset in progress.offsets):
            progress.forget_offsets()
            return
        final = (o for o in progress.offsets if is_final(self._context.mirror(record.link, o.topic)))
        cut = "; ".join(said_of_cuts(final))
        progress.note = "; ".join(filter(None, (progress.note, cut)))
        offsets = {(o.topic, o.partition): (o.target_offset, o.metadata) for o in progress.offsets or ()}
        try:
            await self._offsets.commit_on_target(record.group, offsets)
        except Conflict as error:  # most likely the group has members there, who do not use the gateway
            who = await self._offsets.target_members(record)
            progress.failure = f"{error}; members on the target: {who}" if who else str(error)
            return
        progress.committed = True

    # -- the way back --------------------------------------------------------------------------------------

    async def demote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        """Close the gate and carry the group's offsets from the target back to the source; see `demote_group.py`."""
        # Goes on when whoever asked for it has gone: a gate that is shut meanwhile must open, or stay shut for good.
        run = asyncio.create_task(self._demote(link, group), name=f"demote {group}")
        self._context.background.keep(run)
        return await asyncio.shield(run)

    async def _demote(self, link: str, group: str) -> GroupRecord:
        progress = self.progress_of(link, group)
        async with progress.lock:
            await self._context.store.settled()
            demoted = await demote_group(self._context, self._offsets, self._record(link, group))
            progress.forget_offsets()
            progress.empty_since = progress.seen = progress.memberless_at = None
            return demoted
