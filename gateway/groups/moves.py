"""Groups that change sides together with topics: what a promote asks of them, one method per step.

`cutover/promote/run.py` takes the steps, `cutover/promote/rules/groups.py` decides them. One `GroupSet` is one run's;
what it has learnt dies with it. The other way round, home, is the same: a group's origin is the target then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from gateway.errors import Conflict, ControlError
from gateway.groups.gather import GroupGatherer
from gateway.groups.offsets import GroupTools
from gateway.groups.progress import GroupProgress
from gateway.groups.rules.moves import (
    GroupMove,
    Value,
    as_values,
    begins_as,
    cannot_begin,
    left_out,
    lost_on_target,
    meant_on_target,
)
from gateway.groups.rules.promote import GroupLimits, keeps_on_source, notes
from gateway.kafka.connection.errors import NetError
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.rules.offset_map import TranslationRule
from gateway.mirror.offset_map.rules.translation import is_final
from gateway.mirror.rules.copy_ends import CopyEnds
from gateway.state.records import CarriedOffset, GroupKind, GroupRecord, GroupState, MirrorRecord, SourceOffset
from gateway.state.store import ProducerFenced, StoreConflict

_LIMITS: Final = GroupLimits(quiet_s=0.0)
_LAST_LOOK_S: Final = 1.0
_LOOK_S: Final = 5.0
_ERRORS: Final = (ControlError, NetError, TimeoutError, OSError)
_log = structlog.get_logger("lockgate.control")

Ends = Mapping[str, CopyEnds]
"""Mirror topic -> where its mirror stood when it was stopped under the write pause."""
Change = tuple[GroupRecord, GroupRecord]
"""A group's record as it is, and as it is to be."""


class GroupMoves:
    """Of one term of leadership. `progress_of`: what this process knows of a group; its lock is held meanwhile."""

    def __init__(self, tools: GroupTools, progress_of: Callable[[str, str], GroupProgress]) -> None:
        self._tools = tools
        self._progress_of = progress_of

    def of(self, link: str, topics: Sequence[str], groups: Sequence[str], *, home: bool) -> GroupSet:
        """The groups of one run, which change sides with these mirror topics."""
        return GroupSet(self._tools, self._progress_of, link, topics, groups, home=home)

    async def check(self, link: str, topics: Sequence[str], groups: Sequence[str], *, home: bool) -> None:
        """Raises Conflict for what no waiting changes; SourceUnreachable, TargetUnreachable when it is not known."""
        found = self.of(link, topics, groups, home=home)
        for group in groups:
            if why := cannot_begin(self._tools.records.store.groups.get((link, group)), group, link, home=home):
                raise Conflict(why)
        await found.check()


@dataclass(slots=True)
class _Known:
    """Of one group, by now."""

    waits: str = ""
    broken: str = ""
    looked_at: float | None = None
    kind: GroupKind | None = None
    shut: bool = False
    offsets: dict[TopicPartition, Value] | None = None
    asked_at: float = 0.0
    mirrors_at: int = -1
    carried: tuple[CarriedOffset, ...] = ()
    meant: dict[TopicPartition, Value] | None = None
    held: dict[TopicPartition, Value] | None = None
    seen_at: float | None = None
    note: str = ""

    def forget(self) -> None:
        """Whatever was read may be stale by now."""
        self.offsets = self.meant = self.held = self.seen_at = None
        self.carried = ()


@dataclass(slots=True)
class _Held:
    """What is held, for as long as a run goes on."""

    locks: list[asyncio.Lock] = field(default_factory=list)
    gates: list[str] = field(default_factory=list)
    read: bool = False


class GroupSet:
    """The groups of one run.

    Attributes:
        error: why the last step came to nothing; '' when it did not.
        since: when they were first looked at, on the promote's clock; None before.
    """

    def __init__(
        self,
        tools: GroupTools,
        progress_of: Callable[[str, str], GroupProgress],
        link: str,
        topics: Sequence[str],
        groups: Sequence[str],
        *,
        home: bool,
    ) -> None:
        self._tools = tools
        self._store = tools.records.store
        self._offsets = tools.offsets
        self._clock = tools.clock
        self._gather = GroupGatherer(tools)
        self._link = link
        self._topics = tuple(topics)
        self.groups = tuple(sorted(groups))
        self._home = home
        self._progress = {group: progress_of(link, group) for group in self.groups}
        self._known = {group: _Known() for group in self.groups}
        self._held = _Held()
        self.error = ""
        self.since: float | None = None

    def facts(self) -> tuple[GroupMove, ...]:
        """All that is known now."""
        return tuple(self._fact(group) for group in self.groups)

    def _fact(self, group: str) -> GroupMove:
        known, record = self._known[group], self._store.groups.get((self._link, group))
        waits = known.waits
        if record is not None and record.state is GroupState.PENDING_PROMOTED:
            waits = f"group '{group}' is being promoted by itself"
        return GroupMove(
            group=group,
            home=self._home,
            trouble=cannot_begin(record, group, self._link, home=self._home) or known.broken,
            waits=waits,
            looked_at=known.looked_at,
            locked=self._held.read,
            shut=known.shut,
            offsets=known.offsets,
            asked_at=known.asked_at,
            meant=known.meant,
            held=known.held,
            seen_at=known.seen_at,
        )

    def _record(self, group: str) -> GroupRecord:
        record = self._store.groups.get((self._link, group))
        if record is None:
            raise Conflict(f"mirror group '{group}' was deleted meanwhile")
        return record

    def _as_read(self, group: str) -> GroupRecord:
        """The record, of the kind that the offsets were read by."""
        record = self._record(group)
        return replace(record, kind=self._known[group].kind or record.kind)

    # -- before the write pause ------------------------------------------------------------------------------------

    async def check(self) -> None:
        """What can never come right, looked for before anything is begun; errors as `GroupMoves.check`."""
        for group in self.groups:
            record, mirrors = await self._offsets.as_told(self._record(group), home=self._home), self._mirrors()
            found, _ = await self._at_origin(record)
            why = left_out(group, {topic for topic, _ in found}, self._topics, mirrors, home=self._home)
            if self._home:
                why = why or lost_on_target(record, found.keys(), mirrors)
            if why:
                raise Conflict(why)

    async def look(self) -> None:
        """Who is left on the source; of each group. An error is what is waited for."""
        self.since = self._clock() if self.since is None else self.since
        for group in self.groups:
            progress, known = self._progress[group], self._known[group]
            if self._held.locks:
                known.waits = await self._who_is_left(group)
            else:
                async with progress.lock:
                    known.waits = await self._who_is_left(group)
            known.looked_at = self._clock()

    async def _who_is_left(self, group: str) -> str:
        record, progress = self._store.groups.get((self._link, group)), self._progress[group]
        if record is None or record.state is not begins_as(self._home):
            return ""  # `facts` says what follows from that
        try:
            async with asyncio.timeout(_LOOK_S):
                if self._home:
                    members = await self._offsets.source_members(record)
                    return f"group '{group}' has members on the source: {members}" if members else ""
                await self._gather.look(record, progress, force=False)
        except _ERRORS as exc:
            return f"group '{group}': {str(exc) or 'no answer in time'}"
        found = keeps_on_source(self._gather.snapshot(record, progress, requested=True, force=False), _LIMITS)
        return f"group '{group}': {found}" if found else ""

    async def hold(self) -> None:
        """Nobody else of this gateway commits for the groups from here on, and every gateway knows that they move."""
        if not self._held.locks:
            taken: list[asyncio.Lock] = []
            try:
                for group in self.groups:  # in order, as everybody who takes more than one
                    await self._progress[group].lock.acquire()
                    taken.append(self._progress[group].lock)
            except BaseException:
                for lock in taken:
                    lock.release()
                raise
            self._held.locks = taken
            for group in self.groups:
                self._progress[group].forget_offsets()
        await self._tools.fleet.read_by_all()
        self._held.read = True

    # -- under the write pause -------------------------------------------------------------------------------------

    async def shut(self) -> None:
        """Close the gates everywhere, and wait for the commits that have passed them. Errors as `tried`."""
        for group in self.groups:
            if self._known[group].shut:
                continue
            if group not in self._held.gates:
                self._held.gates.append(group)
            self._tools.gates.hold(group)
            await self._tools.fleet.close_gate(group)
            answered = asyncio.Event()
            self._tools.gates.when_answered(group, answered.set)
            await answered.wait()
            self._known[group].shut = True

    async def read(self) -> None:
        """What each group has committed at its origin. Errors as `tried`."""
        for group in self.groups:
            known, record = self._known[group], self._record(group)
            if self._home and (beside := await self._offsets.remove_from_target(group)):
                known.broken = f"group '{group}' has members on the target that do not use the gateway: {beside}"
                return
            known.mirrors_at, known.asked_at = self._store.mirrors_grown_at, self._clock()
            record = await self._offsets.as_told(record, home=self._home)
            known.kind = record.kind
            found, left = await self._at_origin(record)
            topics = {topic for topic, _ in found}
            known.broken = left_out(group, topics, self._topics, self._mirrors(), home=self._home)
            if self._home:
                known.broken = known.broken or lost_on_target(record, found.keys(), self._mirrors())
            known.offsets, known.note = found, notes((), {}, left)
            if not self._home:
                said = await self._offsets.said_of_delivery(record)
                known.note = "; ".join(filter(None, (said, known.note)))

    async def commit(self, ends: Ends) -> None:
        """On the other cluster, in its numbers. Errors as `tried`.

        The mirrors are stopped by now, so no process keeps their maps: they are read up to `ends`.
        """
        between = self._tools.maps.between(self._link, ends)
        for group in self.groups:
            known, record = self._known[group], self._as_read(group)
            offsets = known.offsets or {}
            if self._home:
                meant = await between.to_source(offsets)
                held = await self._offsets.commit_on_source(record, meant)
                known.held = {key: (one.offset, one.metadata) for key, one in held.items()}
                known.meant = meant
                continue
            carried = await between.to_target([SourceOffset(*key, *value) for key, value in sorted(offsets.items())])
            if early := [one for one in carried if self._is_early(one, ends)]:
                where = f"{early[0].topic}-{early[0].partition}"
                raise Conflict(f"the offset map of {where} does not tell offset {early[0].source_offset} yet")
            meant = meant_on_target(carried)
            await self._offsets.commit_on_target(record, meant)
            known.carried, known.meant = carried, meant

    def _is_early(self, offset: CarriedOffset, ends: Ends) -> bool:
        """The map as read does not reach it, although the mirror has come to it."""
        mirror = self._tools.records.mirror(self._link, offset.topic)
        if offset.rule != TranslationRule.BEYOND_END or is_final(mirror):
            return False
        ended = ends.get(offset.topic)
        found = mirror.cutover.stopped_at if ended is None else ended.mirrored
        return offset.partition < len(found) and offset.source_offset <= found[offset.partition]

    async def check_again(self) -> None:
        """What the other cluster holds, and a last look at the origin. Errors as `tried`."""
        for group in self.groups:
            known, record, asked_at = self._known[group], self._as_read(group), self._clock()
            if not self._home:
                held = await self._offsets.on_target(record)
                known.held = {key: (one.offset, one.metadata) for key, one in held.items()}
            members = await self._beside(record)
            told = await self._offsets.as_told(record, home=self._home)
            found, _ = await self._at_origin(record)
            if members:
                known.broken = members
            elif (found, told.kind) != (known.offsets, record.kind) or known.mirrors_at < self._store.mirrors_grown_at:
                known.forget()
            else:
                known.seen_at = asked_at

    async def _beside(self, record: GroupRecord) -> str:
        """Members that no gateway holds; '' for none."""
        if self._home:
            who, where = await self._offsets.target_members(record), "target"
        else:
            who, where = await self._offsets.source_members(record), "source"
        return f"group '{record.group}' has members on the {where} under the write pause: {who}" if who else ""

    async def _at_origin(self, record: GroupRecord) -> tuple[dict[TopicPartition, Value], list[str]]:
        """What the group has committed of the link's topics, and its topics that are not mirrored."""
        if not self._home:
            offsets, left = await self._offsets.on_source(record)
            return as_values(offsets), left
        held, ours = await self._offsets.on_target(record), self._mirrors()
        return {key: (one.offset, one.metadata) for key, one in held.items() if key[0] in ours}, []

    def _mirrors(self) -> Mapping[str, MirrorRecord]:
        return {topic: mirror for (link, topic), mirror in self._store.mirrors.items() if link == self._link}

    async def tried(self, step: Callable[[], Awaitable[None]], left_s: float) -> None:
        """One step in the time that is left: what it raises is the reason to try it again. ProducerFenced is raised."""
        self.error = ""
        try:
            async with asyncio.timeout(left_s):
                await step()
        except ProducerFenced:
            raise
        except _ERRORS as exc:
            self.error = str(exc) or "no answer in time"

    # -- the cutover -----------------------------------------------------------------------------------------------

    def changes(self) -> Sequence[Change]:
        """The groups' records, to be written with the topics'."""
        return [(record, self._moved(record)) for record in (self._record(group) for group in self.groups)]

    def _moved(self, record: GroupRecord) -> GroupRecord:
        known, now_ms = self._known[record.group], self._tools.records.now_ms()
        kind = known.kind or record.kind
        if not self._home:
            return replace(
                record,
                state=GroupState.PROMOTED,
                state_since_ms=now_ms,
                kind=kind,
                offsets=known.carried,
                note=known.note,
                error_message="",
                demoted=False,
                sent_back=(),
            )
        back = tuple(SourceOffset(*key, *value) for key, value in sorted((known.held or {}).items()))
        return replace(
            record,
            state=GroupState.ACTIVE,
            state_since_ms=now_ms,
            kind=kind,
            offsets=(),
            note="",
            error_message="",
            demoted=True,
            sent_back=back,
        )

    def require_as_seen(self, old: Sequence[GroupRecord]) -> None:
        """Right before the cutover is written. Raises StoreConflict: nothing is, and the groups are looked at again."""
        for record in old:
            known = self._known[record.group]
            if self._store.groups.get((self._link, record.group)) != record:
                raise StoreConflict(f"group '{record.group}' was changed by another operation meanwhile")
            if known.seen_at is None or self._clock() - known.seen_at > _LAST_LOOK_S:
                known.seen_at = None
                raise StoreConflict(f"group '{record.group}' was last looked at too long ago")
            if known.mirrors_at < self._store.mirrors_grown_at:
                known.forget()
                raise StoreConflict(f"a mirror was created meanwhile, of which group '{record.group}' may have offsets")

    def resumed(self) -> None:
        """Writes go on where they went: the groups are let go, their gates are by the records."""
        for known in self._known.values():
            known.forget()
            known.shut, known.broken, known.looked_at = False, "", None
        self.by_records()
        self.release()

    def by_records(self) -> None:
        """The gates are as the records say, here at once, elsewhere when it is told."""
        gates, self._held.gates = self._held.gates, []
        for group in gates:
            self._tools.gates.let_go(group)
            self._tools.background.spawn(self._tools.fleet.gate_by_record(group), f"open gate {group}")

    def release(self) -> None:
        """The end of the run, however it ended: others may commit for the groups. Called once more, it does nothing.

        Gates that are still shut stay so until the next leader: whether the groups have changed sides is not known.
        """
        held, self._held = self._held, _Held()
        for lock in held.locks:
            lock.release()
        if held.locks:
            for group in self.groups:
                self._forget(group)

    def _forget(self, group: str) -> None:
        progress = self._progress[group]
        progress.forget_offsets()
        progress.waits_for = ""
        record = self._store.groups.get((self._link, group))
        if self._home and record is not None and record.demoted:
            progress.sent_back(record.sent_back, self._clock())
