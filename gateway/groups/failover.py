"""What a failover of its topics makes of a group: it goes on on the target from where it is known to have been.

The source is not needed: it is gone, as the link's health says. Offsets come from the last time it was asked, else from
what offset sync had committed on the target; those beyond what was mirrored are cut to where the copy ended, and the
note says by how many records. Each step is decided by `groups/rules/failover.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import structlog

from gateway.errors import Conflict, ControlError
from gateway.groups.gather import source_seen
from gateway.groups.offsets import GroupTools
from gateway.groups.progress import GroupProgress
from gateway.groups.rules.failover import (
    LIMIT_S,
    FailoverPlan,
    GroupFailoverSnapshot,
    GroupFailoverStepKind,
    Known,
    Value,
    changed_sides,
    copy_ends,
    failover_note,
    meant,
    next_step,
    plan_failover,
)
from gateway.groups.rules.kind import kind_now
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.rules.offset_map import TranslationRule
from gateway.mirror.offset_map.rules.translation import Maps, is_final, translated
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import target_errors
from gateway.state.records import GroupRecord, GroupState, MirrorRecord, SourceOffset
from gateway.state.store import StateStore, StoreError

_LAST_LOOK_S = 2.0  # how long a failover asks the source for a group's offsets
_log = structlog.get_logger("lockgate.control")


class GroupFailovers:
    """One per process. `progress_of(link, group)`: what was learned of a group while its source was there."""

    def __init__(self, tools: GroupTools, progress_of: Callable[[str, str], GroupProgress]) -> None:
        self._tools = tools
        self._store = tools.records.store
        self._offsets = tools.offsets
        self._progress_of = progress_of
        self._clock = tools.clock

    async def failed_over(self, mirror: MirrorRecord) -> None:
        """A topic has just failed over: let the groups that read it go on from what is known of them.

        Groups whose source is not gone are left to their promote: they may have members there. It may be about to go,
        so what they have committed by now is remembered. `attempt` comes back to them, as to one that cannot be failed
        over now.
        """
        looks_end = self._clock() + LIMIT_S
        for (link, group), record in list(self._store.groups.items()):
            if link != mirror.link or record.state is GroupState.PROMOTED:
                continue
            try:
                async with asyncio.timeout(LIMIT_S):
                    if source_seen(self._tools.health, link, self._clock()).is_gone:
                        await self.attempt(link, group)
                    elif self._clock() < looks_end:
                        await self._look(record)
            except (ControlError, StoreError, TimeoutError) as error:
                _log.warning("group not failed over yet", link=link, group=group, reason=str(error) or "no answer")

    async def _look(self, record: GroupRecord) -> None:
        """Remember what the group has committed by now, if the source tells."""
        asked_at = self._clock()
        with suppress(ControlError, TimeoutError):
            async with asyncio.timeout(_LAST_LOOK_S):
                kind = kind_now(record.kind, await self._offsets.source_view(record, _LAST_LOOK_S))
                told = record if kind is record.kind else replace(record, kind=kind)
                if told is not record:  # asked by the old one it has no offset
                    await self._store.replace(record, told)
                seen, _ = await self._offsets.on_source(told)
            self._progress_of(record.link, record.group).remember(seen, asked_at)

    async def attempt(self, link: str, group: str) -> None:
        """Fail the group over if a topic of it has, and its source is gone. To be called when it was not told of the
        group; what it waits for is in its `waits_for` then.

        Raises:
            Conflict: the group has members on the target already, or the target refuses.
            TargetUnreachable, StoreError: with the reason; the group is gated as before.
        """
        if not any(key[0] == link and is_final(mirror) for key, mirror in self._store.mirrors.items()):
            return
        progress = self._progress_of(link, group)
        async with progress.lock:
            await self._store.outcome_known()
            run = _GroupFailover(self._tools, progress, (link, group))
            try:
                await run.run()
            except ControlError as error:
                progress.waits_for = f"its topics failed over, the group could not: {error}"
                raise


class _GroupFailover:
    """One attempt, under the group's lock: one method per step of `groups/rules/failover.py`."""

    def __init__(self, tools: GroupTools, progress: GroupProgress, key: tuple[str, str]) -> None:
        self._store = tools.records.store
        self._target = tools.target
        self._maps = tools.maps
        self._offsets = tools.offsets
        self._progress = progress
        self._clock = tools.clock
        self._health = tools.health
        self._key = key
        self._began = asyncio.get_running_loop().time()
        self._held: Mapping[TopicPartition, Value] | None = None
        self._plan: FailoverPlan | None = None
        self._planned_by: Mapping[str, MirrorRecord] = {}
        self._committed = False
        self._read_back: Mapping[TopicPartition, Value] | None = None
        self._actions: Mapping[GroupFailoverStepKind, Callable[[GroupRecord], Awaitable[None]]] = {
            GroupFailoverStepKind.READ_TARGET: self._read_target,
            GroupFailoverStepKind.PLAN: self._make_plan,
            GroupFailoverStepKind.COMMIT: self._commit,
            GroupFailoverStepKind.READ_BACK: self._look_again,
            GroupFailoverStepKind.MARK_PROMOTED: self._mark_promoted,
        }

    async def run(self) -> None:
        before = self._progress.waits_for  # for its promote
        try:
            while (record := self._store.groups.get(self._key)) is not None:
                step = next_step(self._snapshot(record))
                if step.kind is GroupFailoverStepKind.WAIT:
                    before = "; ".join(filter(None, (before.removesuffix(step.reason).removesuffix("; "), step.reason)))
                    return
                if step.kind is GroupFailoverStepKind.DONE:
                    if step.reason:
                        raise Conflict(step.reason)
                    return
                self._progress.waits_for = f"being failed over: {step.reason}"
                await self._actions[step.kind](record)
                before = "" if step.kind is GroupFailoverStepKind.MARK_PROMOTED else before
        finally:
            self._progress.waits_for = before

    def _snapshot(self, record: GroupRecord) -> GroupFailoverSnapshot:
        return GroupFailoverSnapshot(
            now=asyncio.get_running_loop().time(),
            began=self._began,
            group=record.group,
            state=record.state,
            mirrors=_mirrors(self._store, record.link),
            source=source_seen(self._health, record.link, self._clock()),
            known=self._progress.known,
            held=self._held,
            plan=self._plan,
            planned_by=self._planned_by,
            committed=self._committed,
            read_back=self._read_back,
        )

    async def _read_target(self, record: GroupRecord) -> None:
        self._held = await self._on_target(record)

    async def _on_target(self, record: GroupRecord) -> Mapping[TopicPartition, Value]:
        held = await self._offsets.on_target(record)
        return {key: (one.offset, one.metadata) for key, one in held.items()}

    async def _make_plan(self, record: GroupRecord) -> None:
        held = self._held or {}
        ours = _mirrors(self._store, record.link)
        read = [offset for offset in self._progress.known or () if offset.topic in ours]
        keys = {(o.topic, o.partition) for o in read} | {key for key in held if key[0] in ours}
        mirrors = {topic: ours[topic] for topic in sorted({topic for topic, _ in keys})}
        ends: dict[TopicPartition, int] = {}
        for topic, mirror in mirrors.items():
            ends.update(((topic, index), end) for index, end in enumerate(await _ends(self._target, mirror)))
        places = [((o.topic, o.partition), o.offset) for o in read]
        maps = await self._maps.between(record.link).maps_for(places, on_target=False)
        known = {(o.topic, o.partition): _known(maps, o) for o in read}
        self._plan = plan_failover(known, held, {key: end for key, end in ends.items() if key in keys})
        self._planned_by = mirrors
        await self._store.outcome_known()  # of a cutover whose outcome is unknown, clients may have heard already

    async def _commit(self, record: GroupRecord) -> None:
        await self._offsets.commit_on_target(record, meant(self._planned()))
        self._committed = True

    async def _look_again(self, record: GroupRecord) -> None:
        self._read_back = await self._on_target(record)

    async def _mark_promoted(self, record: GroupRecord) -> None:
        plan, progress = self._planned(), self._progress
        if progress.known is not None:
            how = f"offsets as the source had them {self._clock() - progress.known_at:.0f} s before"
        elif self._held:
            how = "offsets as offset sync committed them last"
        else:
            how = "no offset of it is known, auto.offset.reset decides"
        note = failover_note(plan, how)
        await self._offsets.store(
            record,
            GroupState.PROMOTED,
            self._require_same,
            offsets=plan.offsets,
            note=note,
            demoted=False,
            sent_back=(),
        )
        _log.warning("group failed over", link=record.link, group=record.group, records=plan.records, note=note)

    def _planned(self) -> FailoverPlan:
        if self._plan is None:
            raise AssertionError("a group is failed over without a plan")
        return self._plan

    def _require_same(self) -> None:
        """A log's end is the copy's only as long as the record is the one that says so; and a source that is back may
        have members of the group."""
        if not source_seen(self._health, self._key[0], self._clock()).is_gone:
            raise Conflict("the source answers again; the group is promoted as ever")
        if changed := changed_sides(self._planned_by, _mirrors(self._store, self._key[0])):
            raise Conflict(f"mirror topic '{changed}' was changed meanwhile; try again")


def _mirrors(store: StateStore, link: str) -> dict[str, MirrorRecord]:
    return {topic: mirror for (name, topic), mirror in store.mirrors.items() if name == link}


async def _ends(target: ClusterAccess, mirror: MirrorRecord) -> Sequence[int]:
    """Where the copy ends on the target, by the record or, while nobody else writes there, by its log."""
    try:
        ends = copy_ends(mirror)
    except ValueError as exc:
        raise Conflict(str(exc)) from exc
    if ends is not None:
        return ends
    with target_errors():
        found = [end for _, end in await target.log_ranges(mirror.mirror_topic, len(mirror.starts))]
    if len(found) != len(mirror.starts):
        raise Conflict(
            f"the target says for {len(found)} of {len(mirror.starts)} partitions where the copy of mirror topic "
            f"'{mirror.mirror_topic}' ends; try again"
        )
    return found


def _known(maps: Maps, offset: SourceOffset) -> Known:
    """In preserve mode the copy's own end cuts; with a map the numbers of both sides are told apart."""
    key = (offset.topic, offset.partition)
    found = translated(maps, key, offset.offset)
    if found.rule is not TranslationRule.BEYOND_END:
        return Known(offset.offset, found.offset, 0, offset.metadata)
    beyond = offset.offset - (maps[offset.topic].mirrored_to(offset.partition) or 0)
    return Known(offset.offset, None, beyond, offset.metadata)
