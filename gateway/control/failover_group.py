"""What a failover of its topics makes of a group: it goes on on the target from where it is known to have been.

The source is not needed. Offsets come from the last time it was asked, else from what offset sync had committed on the
target; those beyond what was mirrored are cut to where the copy ended, and the note says by how many records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import structlog

from gateway.control.context import ControlContext, target_errors
from gateway.control.errors import Conflict, ControlError
from gateway.control.group_offsets import GroupOffsets
from gateway.control.group_progress import GroupProgress
from gateway.control.offsets_between import OffsetsBetween
from gateway.control.store import StoreError
from gateway.domain.group_failover import FailoverPlan, Known, copy_ends, failover_note, plan_failover
from gateway.domain.group_promote import Partition
from gateway.domain.offset_map import Rule
from gateway.domain.offsets_between import Maps, is_final, translated
from gateway.domain.records import CarriedOffset, GroupRecord, GroupState, MirrorRecord
from gateway.domain.routing_build import written_on_target

_Held = Mapping[Partition, tuple[int, str]]


class _Plan(NamedTuple):
    """And the records of the topics that it was made by."""

    plan: FailoverPlan
    mirrors: Mapping[str, MirrorRecord]


_LAST_LOOK_S = 2.0  # how long a failover asks the source for a group's offsets
_EACH_S = 10.0
_log = structlog.get_logger("lockgate.control")


class GroupFailovers:
    """One per process. `progress_of(link, group)`: what was learned of a group while its source was there."""

    def __init__(
        self,
        context: ControlContext,
        offsets: GroupOffsets,
        progress_of: Callable[[str, str], GroupProgress],
        clock: Callable[[], float],
    ) -> None:
        self._context = context
        self._offsets = offsets
        self._progress_of = progress_of
        self._clock = clock

    async def failed_over(self, mirror: MirrorRecord) -> None:
        """A topic has just failed over: let the groups that read it go on from what is known of them.

        A group whose source still answers is left to its promote: it may have members there. So is one that cannot
        be failed over now; `attempt` comes back to it.
        """
        for link, group in list(self._context.store.groups):
            if link != mirror.link:
                continue
            try:
                async with asyncio.timeout(_EACH_S):
                    if not await self._source_answers(link, group):
                        await self.attempt(link, group)
            except (ControlError, StoreError, TimeoutError) as error:
                _log.warning("group not failed over yet", link=link, group=group, reason=str(error) or "no answer")

    async def _source_answers(self, link: str, group: str) -> bool:
        """Whether it does; then what the group has committed by now is remembered."""
        progress, record = self._progress_of(link, group), self._context.store.groups.get((link, group))
        if record is None:
            return False
        try:
            async with asyncio.timeout(_LAST_LOOK_S):
                seen, _ = await self._offsets.on_source(record)
        except (ControlError, TimeoutError):
            return False
        progress.remember(seen, self._clock())
        return True

    async def attempt(self, link: str, group: str) -> None:
        """Fail the group over if a topic of it has. To be called when its source does not answer.

        Raises:
            Conflict: the group has members on the target already, or the target refuses.
            TargetUnreachable, StoreError: with the reason; the group is gated as before.
        """
        if not any(key[0] == link and is_final(mirror) for key, mirror in self._context.store.mirrors.items()):
            return
        progress = self._progress_of(link, group)
        async with progress.lock:
            await self._context.store.settled()
            record = self._context.store.groups.get((link, group))
            if record is None or record.state is GroupState.PROMOTED:
                return
            held = await self._offsets.on_target(record.group)
            if not self._reads_failed_over(record, progress, held):
                return
            try:
                await self._fail_over(record, progress, {k: (one.offset, one.metadata) for k, one in held.items()})
            except ControlError as error:
                progress.waits_for = f"its topics failed over, the group could not: {error}"
                raise

    def _reads_failed_over(self, record: GroupRecord, progress: GroupProgress, held: Iterable[Partition]) -> bool:
        """Whether it is known to read a topic that failed over, or nothing at all is known of what it reads."""
        mirrors = self._context.store.mirrors
        known = {offset.topic for offset in progress.known or ()} | {name for name, _ in held}
        known = {topic for topic in known if (record.link, topic) in mirrors}
        return not known or any(is_final(mirrors[record.link, topic]) for topic in known)

    async def _fail_over(self, record: GroupRecord, progress: GroupProgress, held: _Held) -> None:
        plan, mirrors = await _plan(self._context, record, progress, held)
        meant = {(o.topic, o.partition): (o.target_offset, o.metadata) for o in plan.offsets}
        await self._offsets.commit_on_target(record.group, meant)
        now_held = await self._offsets.on_target(record.group)
        for key, value in meant.items():
            found = now_held.get(key)
            if found is None or (found.offset, found.metadata) != value:
                where = f"{key[0]}-{key[1]}"
                raise Conflict(f"the target does not hold the offset committed for group '{record.group}' on {where}")
        if progress.known is not None:
            how = f"offsets as the source had them {self._clock() - progress.known_at:.0f} s before"
        elif held:
            how = "offsets as offset sync committed them last"
        else:
            how = "no offset of it is known, auto.offset.reset decides"
        note = failover_note(plan, how)
        await self._offsets.store(
            record,
            GroupState.PROMOTED,
            lambda: _require_same(self._context, mirrors),
            offsets=plan.offsets,
            note=note,
            demoted=False,
        )
        _log.warning("group failed over", link=record.link, group=record.group, records=plan.records, note=note)


async def _plan(context: ControlContext, record: GroupRecord, progress: GroupProgress, held: _Held) -> _Plan:
    ours = {topic: mirror for (link, topic), mirror in context.store.mirrors.items() if link == record.link}
    read = [offset for offset in progress.known or () if offset.topic in ours]
    keys = {(o.topic, o.partition) for o in read} | {key for key in held if key[0] in ours}
    mirrors = {topic: ours[topic] for topic in sorted({topic for topic, _ in keys})}
    ends: dict[Partition, int] = {}
    for topic, mirror in mirrors.items():
        ends.update(((topic, index), end) for index, end in enumerate(await _ends(context, mirror)))
    places = [((o.topic, o.partition), o.source_offset) for o in read]
    maps = await OffsetsBetween(context, record.link).maps_for(places, on_target=False)
    known = {(o.topic, o.partition): _known(maps, o) for o in read}
    plan = plan_failover(known, held, {key: end for key, end in ends.items() if key in keys})
    await context.store.settled()  # of a flip whose outcome is unknown, clients may have heard already
    _require_same(context, mirrors)
    return _Plan(plan, mirrors)


async def _ends(context: ControlContext, mirror: MirrorRecord) -> Sequence[int]:
    """Where the copy ends on the target, by the record or, while nobody else writes there, by its log."""
    try:
        ends = copy_ends(mirror)
    except ValueError as exc:
        raise Conflict(str(exc)) from exc
    if ends is not None:
        return ends
    with target_errors():
        return [end for _, end in await context.target.log_ranges(mirror.mirror_topic, len(mirror.starts))]


def _require_same(context: ControlContext, mirrors: Mapping[str, MirrorRecord]) -> None:
    """A log's end is the copy's only as long as the record is the one that says so."""
    for topic, mirror in mirrors.items():
        now = context.store.mirrors.get((mirror.link, topic))
        if now is None or _sides(now) != _sides(mirror):
            raise Conflict(f"mirror topic '{topic}' was changed meanwhile; try again")


def _sides(mirror: MirrorRecord) -> tuple[object, ...]:
    """What of a record says where its copy ends, and in which numbers."""
    ends = mirror.stopped_at, mirror.stopped_copy_at, mirror.handed_over_at, mirror.starts
    return mirror.mirror_id, mirror.generation, mirror.direction, written_on_target(mirror), mirror.mode, ends


def _known(maps: Maps, offset: CarriedOffset) -> Known:
    """In preserve mode the copy's own end cuts; with a map the numbers of both sides are told apart."""
    key = (offset.topic, offset.partition)
    found = translated(maps, key, offset.source_offset)
    if found.rule is not Rule.BEYOND_END:
        return Known(offset.source_offset, found.offset, 0, offset.metadata)
    beyond = offset.source_offset - (maps[offset.topic].mirrored_to(offset.partition) or 0)
    return Known(offset.source_offset, None, beyond, offset.metadata)
