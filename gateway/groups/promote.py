"""Promotes and demotes mirror groups: gathers a snapshot, takes the one step `groups/rules/promote.py` says, again.

Wired by `runtime/term.py`:

    promoter = GroupPromotions(group_tools(parts), quiet_s=...)               # a GroupPromoter
    monitor = group_monitor(parts, promoter, reports)                         # groups/monitor.py
    monitor.start()
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from gateway.errors import Conflict, ControlError, SourceUnreachable
from gateway.groups.demote import demote_group, foreseen_demote
from gateway.groups.dry_runs import promote_plan
from gateway.groups.failover import GroupFailovers
from gateway.groups.gate.rules.gates import COMMITS_S, unanswered
from gateway.groups.gather import GroupGatherer
from gateway.groups.moves import GroupMoves
from gateway.groups.offsets import GroupTools
from gateway.groups.progress import GroupProgress
from gateway.groups.rules.promote import (
    GroupInvariantViolated,
    GroupLimits,
    GroupStep,
    GroupStepKind,
    check_invariants,
    next_step,
    notes,
    said_of_cuts,
    same_on_source,
)
from gateway.mirror.offset_map.rules.offset_map import TranslationRule
from gateway.mirror.offset_map.rules.translation import is_final
from gateway.operations.partners import GroupPlan
from gateway.state.promote_sets import moved_with
from gateway.state.records import CarriedOffset, GroupKind, GroupRecord, GroupState
from gateway.state.store import StoreError

POLL_S = 0.2
PATIENCE_S = 30.0
MARK_S = 1.0  # how long after the last look at the source a group may be marked as promoted
_READINGS = {GroupStepKind.READ_OFFSETS, GroupStepKind.READ_BACK}
_log = structlog.get_logger("lockgate.control")


class _LookedAway(Exception):
    """Too much time has passed since the source was looked at."""


class GroupPromotions:
    """Implements `GroupPromoter`. One promote or demote of a group at a time."""

    def __init__(self, tools: GroupTools, *, quiet_s: float) -> None:
        """`quiet_s`: for how long a group must have had no members before it is promoted by itself."""
        self._tools = tools
        self._records = tools.records
        self._store = tools.records.store
        self._maps = tools.maps
        self._gates = tools.gates
        self._limits = GroupLimits(quiet_s)
        self._clock = tools.clock
        self._fleet = tools.fleet
        self.offsets = self._offsets = tools.offsets
        self._gather = GroupGatherer(tools)
        self._progress: dict[tuple[str, str], GroupProgress] = {}
        self.failovers = GroupFailovers(tools, self.progress_of)
        self.moves = GroupMoves(tools, self.progress_of)

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
            SourceUnreachable, TargetUnreachable: with the reason; at once when the link is known to be unavailable.
        """
        if self._record(link, group).state is GroupState.PROMOTED:
            raise Conflict(f"group '{group}' is promoted already")
        health = self._tools.health.get(link)
        if health is not None and not health.available:
            raise SourceUnreachable(f"the source of link '{link}' is unavailable: {health.message}")
        await self._run(link, group, requested=True, force=force, deadline=self._clock() + PATIENCE_S)
        record = self._record(link, group)
        if record.state is not GroupState.PROMOTED:
            raise Conflict(f"group '{group}' was not promoted: {self.waits_for(link, group)}")
        return record

    async def promote_plan(self, link: str, group: str, *, force: bool = False) -> GroupPlan:
        """What `promote` would meet now; nothing is changed, and nobody waited for."""
        known = self._progress.get((link, group), GroupProgress())
        return await promote_plan(self._tools, self._limits, self._record(link, group), known, force=force)

    async def demote_plan(self, link: str, group: str) -> GroupPlan:
        """What `demote` would meet now; see `demote.py`."""
        return await foreseen_demote(self._tools, self._record(link, group))

    async def attempt(self, link: str, group: str) -> None:
        """Go as far as is possible by itself; called again and again by the monitor."""
        try:
            await self._run(link, group, requested=False, force=False, deadline=self._clock() + PATIENCE_S)
        except (ControlError, StoreError) as error:
            self.progress_of(link, group).waits_for = str(error)  # clients wait: `describe` says for what
            raise
        if self.progress_of(link, group).unanswered:
            await self.failovers.attempt(link, group)

    async def _run(self, link: str, group: str, *, requested: bool, force: bool, deadline: float) -> None:
        progress, readings = self.progress_of(link, group), set[GroupStepKind]()
        async with progress.lock:
            progress.failure = ""
            if requested:
                progress.forget_offsets()
            await self._store.outcome_known()  # a mark of before, of which nobody knows whether it was made
            while True:
                if await self._left_to_topics(self._record(link, group), progress, requested=requested):
                    return
                record = await self._looked_at(link, group, progress, force=force)
                snapshot = self._gather.snapshot(record, progress, requested=requested, force=force)
                step = next_step(snapshot, self._limits)
                check_invariants(snapshot, step)
                if step.kind is GroupStepKind.DONE:
                    progress.waits_for = ""
                    return
                if step.kind is GroupStepKind.WAIT:
                    progress.waits_for = step.reason
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
                progress.waits_for = step.reason  # not before: what stopped it is shown until it gets over it
                if step.kind is GroupStepKind.MARK_ACTIVE:
                    return

    def _with_topics(self, link: str, group: str) -> str:
        """Why the group goes nowhere by itself now; '' when it may."""
        topics = moved_with(self._store.mirrors.values(), link, group)
        if not topics:
            return ""
        return f"changes sides with mirror topic '{topics[0]}'; see what waits: lockgate mirror describe {topics[0]}"

    async def _left_to_topics(self, record: GroupRecord, progress: GroupProgress, *, requested: bool) -> bool:
        """Whether it changes sides with topics now, and so not by itself. Raises Conflict for who has asked."""
        barred = self._with_topics(record.link, record.group)
        if not barred:
            return False
        progress.waits_for = barred
        if record.state is GroupState.PENDING_PROMOTED:  # it had begun by itself
            progress.forget_offsets()
            await self._offsets.store(record, GroupState.ACTIVE, error_message="")
        if requested:
            raise Conflict(f"group '{record.group}' {barred}")
        return True

    def _record(self, link: str, group: str) -> GroupRecord:
        record = self._store.groups.get((link, group))
        if record is None:
            raise Conflict(f"mirror group '{group}' was deleted meanwhile")
        return record

    async def _looked_at(self, link: str, group: str, progress: GroupProgress, *, force: bool) -> GroupRecord:
        """The group's record, with what the source has told of it by now."""
        await self._gather.look(self._record(link, group), progress, force=force)
        if await self._is_of_another_kind(self._record(link, group), progress):
            await self._gather.look(self._record(link, group), progress, force=force)
        record = await self._arrived(self._record(link, group), progress)
        return await self._remembered(record, progress)

    async def _is_of_another_kind(self, record: GroupRecord, progress: GroupProgress) -> bool:
        """True for a share group that was recorded as another one, or the other way round: the record says so by now.

        It was deleted on the source and begun anew. What was read of its offsets was asked of the wrong kind.
        """
        told = progress.kind
        if record.state is GroupState.PROMOTED or told is None or told is record.kind:
            return False
        if GroupKind.SHARE not in (told, record.kind):
            return False
        await self._store.replace(record, replace(record, kind=told))
        progress.forget_offsets()
        progress.seen = None
        _log.info("group is of another kind", link=record.link, group=record.group, old=record.kind, new=told)
        return True

    async def _arrived(self, record: GroupRecord, progress: GroupProgress) -> GroupRecord:
        """A demoted group that is back on the source, as a member or not, may be promoted by itself again."""
        if not record.demoted or not progress.arrived:
            return record
        back = replace(record, demoted=False, sent_back=())
        await self._store.replace(record, back)
        progress.arrived = False
        return back

    async def _remembered(self, record: GroupRecord, progress: GroupProgress) -> GroupRecord:
        """How seldom it commits is for the next leader to know, too."""
        silent_s = progress.silences.to_store(record.silent_s, self._limits.memberless_quiet_s)
        if silent_s == record.silent_s or record.state is not GroupState.ACTIVE:
            return record
        known = replace(record, silent_s=silent_s)
        await self._store.replace(record, known)
        return known

    async def commits_after_promote(self, record: GroupRecord) -> int:
        """Partitions of a promoted group whose offset on the source is another than the one that was carried.

        Somebody still reads there, as a member or not. Raises ControlError when the source does not tell.
        """
        now, _ = await self._offsets.on_source(record)
        carried = {(o.topic, o.partition): o.source_offset for o in record.offsets}
        return sum(o.offset != carried.get((o.topic, o.partition), o.offset) for o in now)

    # -- steps ---------------------------------------------------------------------------------------------

    async def _take(self, record: GroupRecord, progress: GroupProgress, step: GroupStep) -> None:
        match step.kind:
            case GroupStepKind.MARK_PENDING:
                progress.forget_offsets()
                progress.settled = False
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
                held = await self._offsets.on_target(record)
                again, _ = await self._offsets.on_source(record)
                if same_on_source(progress.offsets or (), again):
                    progress.offsets_at = self._clock()
                    progress.read_back = {key: (value.offset, value.metadata) for key, value in held.items()}
                else:  # a member came and left between two looks, or somebody commits without being a member
                    progress.forget_offsets()
                    progress.committed(self._clock())
            case GroupStepKind.MARK_PROMOTED:
                await self._mark_promoted(record, progress)
            case _:
                pass  # CHECK_MEMBERS: members are asked for before every step

    async def _mark_promoted(self, record: GroupRecord, progress: GroupProgress) -> None:
        """The gate opens by the record. It is written with what the last look at the source found, or not at all."""
        carried, looked_at = progress.carried, progress.members_at
        if carried is None:
            raise GroupInvariantViolated(f"group '{record.group}' would be PROMOTED without its offsets")

        def as_seen() -> None:
            if progress.members_at != looked_at or self._clock() - looked_at > MARK_S:
                raise _LookedAway
            if progress.mirrors_at < self._store.mirrors_grown_at:  # of one topic more there are no offsets
                raise _LookedAway
            if self._with_topics(record.link, record.group):
                raise _LookedAway

        try:
            await self._offsets.store(
                record, GroupState.PROMOTED, as_seen, offsets=carried, note=progress.note, demoted=False, sent_back=()
            )
        except _LookedAway:
            progress.forget_offsets()
        except BaseException:
            progress.forget_offsets()  # time has passed, and it is not promoted, as far as is known
            raise
        else:
            _log.info("group promoted", link=record.link, group=record.group, offsets=len(carried))

    async def _read_offsets(self, record: GroupRecord, progress: GroupProgress) -> None:
        if not progress.settled:
            await self._settle(record)
            progress.settled = True
        mirrors_at, asked_at = self._store.mirrors_grown_at, self._clock()
        offsets, left = await self._offsets.on_source(record)
        progress.forget_offsets()
        progress.mirrors_at = mirrors_at
        progress.offsets, progress.offsets_at = offsets, self._clock()
        progress.remember(offsets, asked_at)
        progress.maps = await self._maps.between(record.link).maps(offset.topic for offset in offsets)
        progress.measured(offsets, await self._offsets.source_ranges(record, offsets))
        if progress.beyond:
            await self._offsets.ask_for_leaders(record, {topic for topic, _ in progress.beyond})
        said = await self._offsets.said_of_delivery(record)
        progress.note = "; ".join(filter(None, (said, notes(offsets, progress.ranges, left))))
        if progress.note:
            _log.warning("offsets need a look", link=record.link, group=record.group, note=progress.note)

    async def _settle(self, record: GroupRecord) -> None:
        """Every gateway has read that the group is being promoted: nobody takes it for one that has no gate, and no
        transaction commits its offsets at the source any more. What was sent there before is answered.

        Raises:
            Conflict: a gateway is lost, or a commit is not answered.
        """
        await self._fleet.commits_settled(record.group)
        answered = asyncio.Event()
        self._gates.when_answered(record.group, answered.set)
        try:
            async with asyncio.timeout(COMMITS_S):
                await answered.wait()
        except TimeoutError:
            raise Conflict(unanswered(record.group)) from None

    def _is_early(self, link: str, offset: CarriedOffset, progress: GroupProgress) -> bool:
        """The map says that the mirror has not come to it, although it seemed so: the topic's mode has changed."""
        if offset.rule != TranslationRule.BEYOND_END or is_final(self._records.mirror(link, offset.topic)):
            return False
        _, end = progress.ranges.get((offset.topic, offset.partition), (0, offset.source_offset))
        return offset.source_offset <= end

    async def _commit(self, record: GroupRecord, progress: GroupProgress) -> None:
        # Not before: only now the mirror has what the offsets point at.
        carried = await self._maps.between(record.link).to_target(progress.offsets or ())
        if any(self._is_early(record.link, offset, progress) for offset in carried):
            progress.forget_offsets()
            return
        final = (o for o in carried if is_final(self._records.mirror(record.link, o.topic)))
        cut = "; ".join(said_of_cuts(final))
        progress.note = "; ".join(filter(None, (progress.note, cut)))
        offsets = {(o.topic, o.partition): (o.target_offset, o.metadata) for o in carried}
        try:
            await self._offsets.commit_on_target(record, offsets)
        except Conflict as error:  # most likely the group has members there, who do not use the gateway
            who = await self._offsets.target_members(record)
            progress.failure = f"{error}; members on the target: {who}" if who else str(error)
            return
        progress.carried = carried

    # -- the failback --------------------------------------------------------------------------------------

    async def demote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        """Close the gate and carry the group's offsets from the target back to the source; see `demote.py`."""
        # Goes on when whoever asked for it has gone: a gate that is shut meanwhile must open, or stay shut for good.
        run = asyncio.create_task(self._demote(link, group), name=f"demote {group}")
        self._tools.background.keep(run)
        return await asyncio.shield(run)

    async def _demote(self, link: str, group: str) -> GroupRecord:
        progress = self.progress_of(link, group)
        async with progress.lock:
            await self._store.outcome_known()
            if barred := self._with_topics(link, group):
                raise Conflict(f"group '{group}' {barred}")
            began_at = self._clock()
            demoted = await demote_group(self._tools, self._record(link, group), progress)
            progress.sent_back(demoted.sent_back, began_at)
            return demoted
