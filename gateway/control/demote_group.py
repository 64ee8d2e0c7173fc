"""The way back from a group promote: the group goes on on the source from exactly where it was on the target.

Order: nobody reads on the target -> gate closed -> still nobody, on either side -> of topics that are written on the
target, the mirror back has come to its offsets -> the target's offsets committed on the source and read back -> ACTIVE
persisted. Before the last step the group is PROMOTED, whatever is interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gateway.control.context import ControlContext
from gateway.control.errors import Conflict
from gateway.control.group_offsets import GroupOffsets
from gateway.control.offsets_between import OffsetsBetween
from gateway.control.store import ProducerFenced, StoreConflict, StoreUncertain
from gateway.domain.group_promote import Partition
from gateway.domain.records import GroupRecord, GroupState, MirrorState
from gateway.net.commits import Committed

Value = tuple[int, str]

_STORE_AGAIN_S = 0.25
_COMMITS_S = 10.0
_MIRROR_S = 30.0
_LOOK_S = 0.1


async def demote_group(context: ControlContext, offsets: GroupOffsets, record: GroupRecord) -> GroupRecord:
    """Demote; the record is ACTIVE and the gate closed when this returns.

    Raises:
        Conflict: not promoted; members on the target (the gateway cannot make them leave) or on the source; a topic
            that was promoted and is not mirrored back, so that the source lacks what was written since; a mirror back
            that does not come to the group's offsets in 30 s; the source refused.
        SourceUnreachable, TargetUnreachable, StoreError: with the reason; the group is PROMOTED as before.
    """
    if record.state is not GroupState.PROMOTED:
        raise Conflict(f"group '{record.group}' is {record.state}, not PROMOTED")
    _require_left("target", record, await offsets.target_members(record))  # a refusal must not disturb them
    context.gates.hold(record.group)
    try:
        await context.fleet.close_gate(record.group)
        await _answered(context, record.group)
        await _carry_back(context, offsets, record)
        demoted = await _mark_active(context, offsets, record)
    except (ProducerFenced, asyncio.CancelledError):
        raise  # the term ends, and nobody knows here what was written: the gate stays shut until the next leader tells
    except BaseException:
        _by_record(context, record.group)
        raise
    _by_record(context, record.group)
    return demoted


def _by_record(context: ControlContext, group: str) -> None:
    """The gate is as the group's record says, here at once, elsewhere when it is told."""
    context.gates.let_go(group)
    context.background.spawn(context.fleet.gate_by_record(group), f"open gate {group}")


async def _answered(context: ControlContext, group: str) -> None:
    """Until every commit that passed the gate before it closed is answered: none can come after the reading."""
    answered = asyncio.Event()
    context.gates.when_answered(group, answered.set)
    try:
        async with asyncio.timeout(_COMMITS_S):
            await answered.wait()
    except TimeoutError:
        raise Conflict(f"the target has not answered a commit of group '{group}' for {_COMMITS_S:g} s") from None


async def _carry_back(context: ControlContext, offsets: GroupOffsets, record: GroupRecord) -> None:
    _require_left("target", record, await offsets.target_members(record))
    _require_left("source", record, await offsets.source_members(record))
    meant = _to_carry_back(context, record, await offsets.on_target(record.group))
    await _mirrored_back(context, record, meant)
    meant = await OffsetsBetween(context, record.link).to_source(meant)
    held = await offsets.commit_on_source(record, meant)
    for key, value in meant.items():
        found = held.get(key)
        if found is None or (found.offset, found.metadata) != value:
            where = f"{key[0]}-{key[1]}"
            raise Conflict(f"the source does not hold the offset committed for group '{record.group}' on {where}")


async def _mirrored_back(context: ControlContext, record: GroupRecord, meant: Mapping[Partition, Value]) -> None:
    """Of topics that are written on the target: until the mirror back has come to the group's offsets."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _MIRROR_S
    while True:
        behind = await _behind(context, record, meant)
        if not behind:
            return
        if loop.time() >= deadline:
            raise Conflict(f"group '{record.group}' cannot go back yet: {behind}")
        await asyncio.sleep(_LOOK_S)


async def _behind(context: ControlContext, record: GroupRecord, meant: Mapping[Partition, Value]) -> str:
    """The first offset that the mirror back has not come to; '' when it has come to all."""
    maps = await OffsetsBetween(context, record.link).maps(topic for topic, _ in meant)
    for (topic, partition), (offset, _) in meant.items():
        mirror = context.mirror(record.link, topic)
        if not mirror.is_reverse:
            continue
        translated = maps.get(topic)
        if translated is None:
            position = context.progress.position(topic, partition)
        else:
            position = translated.mirrored_back_to(partition)
        if position is None or position < offset:
            at = "is not known yet" if position is None else f"has come to {position}"
            return f"the mirror back of {topic}-{partition} {at}, the group is at {offset} ({mirror.state})"
    return ""


async def _mark_active(context: ControlContext, offsets: GroupOffsets, record: GroupRecord) -> GroupRecord:
    """Persist it, for certain: while the outcome is unknown the gate can neither be opened nor left closed."""
    while True:
        try:
            return await offsets.store(record, GroupState.ACTIVE, offsets=(), note="", demoted=True)
        except StoreUncertain:
            await asyncio.sleep(_STORE_AGAIN_S)
        except StoreConflict:
            now = context.store.groups.get((record.link, record.group))
            if now is None or now.state is not GroupState.ACTIVE:
                raise
            return now  # the write whose outcome was unknown had succeeded


def _to_carry_back(
    context: ControlContext, record: GroupRecord, held: Mapping[Partition, Committed]
) -> dict[Partition, tuple[int, str]]:
    mirrors = {topic: mirror for (link, topic), mirror in context.store.mirrors.items() if link == record.link}
    stopped = {topic for topic, _ in held if topic in mirrors and mirrors[topic].state is MirrorState.STOPPED}
    if stopped:
        raise Conflict(
            f"group '{record.group}' cannot go back: the source does not have what was written to "
            f"{', '.join(sorted(stopped))} since it was promoted; mirror it back first (reverse-and-start-mirror)"
        )
    return {key: (value.offset, value.metadata) for key, value in held.items() if key[0] in mirrors}


def _require_left(where: str, record: GroupRecord, members: str) -> None:
    if members:
        raise Conflict(f"group '{record.group}' has members on the {where}: stop them first: {members}")
