"""One run of a group's demote: gather a snapshot, ask `groups/rules/demote.py` for the step, take it, again.

All I/O of a demote begins here, one method per step. What outlives the process is the group's record alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from gateway.errors import Conflict, ControlError
from gateway.groups.gate.rules.gates import GateStatus
from gateway.groups.offsets import GroupTools
from gateway.groups.progress import GroupProgress
from gateway.groups.rules.demote import (
    DemoteLimits,
    DemoteMemory,
    DemoteSnapshot,
    DemoteStep,
    DemoteStepKind,
    foreseen,
    members_left,
    next_step,
)
from gateway.kafka.topic_partition import TopicPartition
from gateway.operations.partners import GroupPlan
from gateway.state.records import CarriedOffset, GroupRecord, GroupState, SourceOffset
from gateway.state.store import ProducerFenced, StoreConflict, StoreError, StoreUncertain, until_known

LIMITS = DemoteLimits()
_K = DemoteStepKind


async def demote_group(tools: GroupTools, record: GroupRecord, progress: GroupProgress) -> GroupRecord:
    """Demote; the record is ACTIVE and the gate closed when this returns. `progress` has what is waited for meanwhile.

    Raises:
        Conflict: not promoted; members on the target (the gateway cannot make them leave) or on the source; a topic
            that was promoted and is not mirrored back, so that the source lacks what was written since; a mirror back
            that does not come to the group's offsets in 30 s; an offset that was carried over and is not on the target
            any more; a group of that name and of another kind on the source; the source refused.
        SourceUnreachable, TargetUnreachable, StoreError: with the reason; the group is PROMOTED as before.
    """
    return await _DemoteRun(tools, record, progress).run()


async def foreseen_demote(tools: GroupTools, record: GroupRecord) -> GroupPlan:
    """What a demote would meet now. The gate stays as it is, so what the group commits meanwhile is not in it."""
    return await _DemoteRun(tools, record, GroupProgress()).foresee()


class _DemoteRun:
    def __init__(self, tools: GroupTools, record: GroupRecord, progress: GroupProgress) -> None:
        self._tools = tools
        self._store = tools.records.store
        self._gates = tools.gates
        self._fleet = tools.fleet
        self._offsets = tools.offsets
        self._clock = tools.clock
        self._progress = progress
        self._key = (record.link, record.group)
        self._group = record.group
        self._kind = record.kind
        self._memory = DemoteMemory()
        self._failure: Exception | None = None
        self._actions: Mapping[DemoteStepKind, Callable[[DemoteStep], Awaitable[None]]] = {
            _K.CHECK_TARGET: self._check_target,
            _K.CLOSE_GATE: self._close_gate,
            _K.AWAIT_COMMITS: self._await_commits,
            _K.CHECK_MEMBERS: self._check_members,
            _K.READ_OFFSETS: self._read_offsets,
            _K.AWAIT_MIRROR: self._await_mirror,
            _K.COMMIT: self._commit,
            _K.MARK_ACTIVE: self._mark_active,
            _K.SETTLE: self._settle,
            _K.OPEN_GATE: self._open_gate,
        }

    async def run(self) -> GroupRecord:
        try:
            while (step := self._next()).kind is not _K.DONE:
                self._progress.waits_for = f"being demoted: {step.reason}" if step.reason else ""
                if step.delay_s:
                    await asyncio.sleep(step.delay_s)
                await self._actions[step.kind](step)
        except (ProducerFenced, asyncio.CancelledError):
            raise  # the term ends, and nobody knows here what was written: the gate stays shut until the next leader
        except Exception:
            await self._let_go()
            raise
        finally:
            self._progress.waits_for = ""
        if step.reason:
            raise self._failure or Conflict(step.reason)
        return self._record()

    async def foresee(self) -> GroupPlan:
        """By the readings of a run, and by its table; not one of the steps that change something."""
        record, blocker, waits_for = self._record(), "", ""
        now, look = DemoteStep(_K.DONE), (self._check_members, self._read_offsets, self._await_mirror)
        try:
            for reading in look:
                blocker, waits_for = foreseen(self._snapshot(), LIMITS)
                if blocker:
                    return GroupPlan(record=record, blocker=blocker)
                await reading(now)
            blocker, waits_for = foreseen(self._snapshot(), LIMITS)
            offsets = self._memory.offsets or {}
            meant = {} if blocker or waits_for else await self._tools.maps.between(self._key[0]).to_source(offsets)
        except ControlError as exc:
            return GroupPlan(record=record, blocker=str(exc))
        carried = [CarriedOffset(*key, meant[key][0], offsets[key][0], meant[key][1]) for key in sorted(meant)]
        return GroupPlan(record=record, blocker=blocker, waits_for=waits_for, offsets=carried)

    def _next(self) -> DemoteStep:
        return next_step(self._snapshot(), LIMITS)

    def _snapshot(self) -> DemoteSnapshot:
        record = self._record()
        gates = self._gates
        mirrors = {topic: mirror for (link, topic), mirror in self._store.mirrors.items() if link == record.link}
        return self._memory.snapshot(
            self._clock(),
            self._group,
            record.state,
            mirrors,
            frozenset((offset.topic, offset.partition) for offset in record.offsets),
            gate_open=gates.enabled and gates.status(self._group) is GateStatus.OPEN,
        )

    def _record(self) -> GroupRecord:
        record = self._store.groups.get(self._key)
        if record is None:
            raise Conflict(f"mirror group '{self._group}' was deleted meanwhile")
        return record

    async def _let_go(self) -> None:
        """Something went wrong that no step expects: the gate is by the record, once it is known what is stored."""
        if self._memory.committing and not await until_known(self._store):
            return  # the next leader knows
        if self._memory.shut and not self._memory.opened:
            self._by_record()

    def _by_record(self) -> None:
        """The gate is as the group's record says, here at once, elsewhere when it is told."""
        group = self._group
        self._gates.let_go(group)
        self._tools.background.spawn(self._fleet.gate_by_record(group), f"open gate {group}")

    # -- steps -----------------------------------------------------------------------------------------------------

    async def _check_target(self, _: DemoteStep) -> None:
        if members := await self._offsets.target_members(self._record()):
            self._memory.give_up(members_left("target", self._group, members))
        self._memory.looked = True

    async def _close_gate(self, _: DemoteStep) -> None:
        self._gates.hold(self._group)
        self._memory.shut = True
        await self._fleet.close_gate(self._group)
        self._memory.closed = True

    async def _await_commits(self, step: DemoteStep) -> None:
        """Until every commit that passed the gate before it closed is answered: none can come after the reading."""
        answered = asyncio.Event()
        self._gates.when_answered(self._group, answered.set)
        try:
            async with asyncio.timeout(step.limit_s):
                await answered.wait()
        except TimeoutError:
            self._memory.give_up(
                f"the target has not answered a commit of group '{self._group}' for {step.limit_s:g} s"
            )
        else:
            self._memory.answered = True

    async def _check_members(self, _: DemoteStep) -> None:
        self._memory.on_target = await self._offsets.target_members(self._record())
        self._memory.on_source = await self._offsets.source_members(self._record())

    async def _read_offsets(self, _: DemoteStep) -> None:
        record = await self._offsets.as_told(self._record(), home=True)
        self._kind = record.kind
        held = await self._offsets.on_target(record)
        ours = {topic for link, topic in self._store.mirrors if link == self._key[0]}
        self._memory.offsets = {key: (one.offset, one.metadata) for key, one in held.items() if key[0] in ours}

    async def _await_mirror(self, _: DemoteStep) -> None:
        offsets = self._memory.offsets or {}
        back = {topic for topic, _ in offsets if self._tools.records.mirror(self._key[0], topic).is_reverse}
        maps = await self._tools.maps.between(self._key[0]).maps(back)
        found: dict[TopicPartition, int | None] = {}
        for topic, partition in offsets:
            if topic in maps:
                found[topic, partition] = maps[topic].mirrored_back_to(partition)
            elif topic in back:
                found[topic, partition] = self._tools.progress.position(topic, partition)
        self._memory.mirror_looked_at(found, self._clock())

    async def _commit(self, _: DemoteStep) -> None:
        meant = await self._tools.maps.between(self._key[0]).to_source(self._memory.offsets or {})
        held = await self._offsets.commit_on_source(replace(self._record(), kind=self._kind), meant)
        self._memory.meant = meant
        self._memory.held = {key: (one.offset, one.metadata) for key, one in held.items()}

    async def _mark_active(self, _: DemoteStep) -> None:
        self._memory.storing(self._clock())
        try:
            await self._offsets.store(
                self._record(),
                GroupState.ACTIVE,
                offsets=(),
                note="",
                demoted=True,
                sent_back=self._sent_back(),
                kind=self._kind,
            )
        except ProducerFenced:
            raise
        except (StoreUncertain, StoreConflict):
            return  # to be found out
        except StoreError as exc:  # nothing was written
            self._failure = exc
            self._memory.give_up(str(exc) or "the demote was not stored")
        self._memory.known(self._record().state)

    def _sent_back(self) -> tuple[SourceOffset, ...]:
        held = self._memory.held or {}
        return tuple(SourceOffset(*key, *value) for key, value in sorted(held.items()))

    async def _settle(self, _: DemoteStep) -> None:
        try:
            await self._store.resolve_outcome()
        except ProducerFenced:
            raise
        except StoreError:
            return
        self._memory.known(self._record().state)

    async def _open_gate(self, _: DemoteStep) -> None:
        self._by_record()
        self._memory.opened = True
