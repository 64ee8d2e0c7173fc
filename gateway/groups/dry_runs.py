"""What a promote of a mirror group would meet now, by the readings of a promote and its own resolver.

Nothing is changed: not the record, not the gate, not what the promotes of this process have learned (`GroupProgress`),
of which a fresh one is filled. Nothing is waited for either: what a promote would wait for is told. Of a demote it is
told in `demote.py`, which reads for itself.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.errors import ControlError
from gateway.groups.gather import GroupGatherer
from gateway.groups.offsets import GroupTools
from gateway.groups.progress import GroupProgress
from gateway.groups.rules.promote import GroupLimits, GroupStepKind, next_step, notes
from gateway.operations.partners import GroupPlan
from gateway.state.records import CarriedOffset, GroupRecord, GroupState

_CHANGING = "its offsets on the source change just now"


async def promote_plan(
    tools: GroupTools, limits: GroupLimits, record: GroupRecord, known: GroupProgress, *, force: bool
) -> GroupPlan:
    """What a promote at an operator's word would meet. `known`: what this process has seen of the group; only read."""
    if record.state is GroupState.PROMOTED:
        return GroupPlan(record=record, blocker=f"group '{record.group}' is promoted already")
    seen, gather = (
        GroupProgress(memberless_at=known.memberless_at, watched_since=known.watched_since, silences=known.silences),
        GroupGatherer(tools),
    )
    left, failure, said = list[str](), "", ""
    try:
        record = await tools.offsets.as_told(record, home=False)
        seen.offsets, left = await tools.offsets.on_source(record)
        seen.offsets_at = tools.clock()
        seen.maps = await tools.maps.between(record.link).maps(one.topic for one in seen.offsets)
        seen.ranges = await tools.offsets.source_ranges(record, seen.offsets)
        said = await tools.offsets.said_of_delivery(record)
    except ControlError as exc:
        seen.offsets, failure = None, str(exc)
    note = "; ".join(filter(None, (said, notes(seen.offsets or (), seen.ranges, left))))
    await gather.look(record, seen, force=force)
    seen.failure = "" if seen.members is None else failure  # that the source does not answer is told by the look
    snapshot = gather.snapshot(record, seen, requested=True, force=force)
    step = next_step(replace(snapshot, state=GroupState.PENDING_PROMOTED), limits)  # as if it had begun
    if step.kind is GroupStepKind.MARK_ACTIVE or seen.members is None:
        return GroupPlan(record=record, blocker=step.reason)
    blocker = await _members_there(tools, record)
    waits = _CHANGING if step.kind is GroupStepKind.READ_OFFSETS else step.reason
    offsets = () if blocker or waits else await _carried(tools, record, seen)
    return GroupPlan(record=record, blocker=blocker, waits_for=waits, note=note, offsets=offsets)


async def _members_there(tools: GroupTools, record: GroupRecord) -> str:
    """The target takes no offsets for a group with members, and only those who pass the gateway by can be there."""
    try:
        who = await tools.offsets.target_members(record)
    except ControlError as exc:
        return str(exc)
    return f"group '{record.group}' has members on the target, who do not use the gateway: {who}" if who else ""


async def _carried(tools: GroupTools, record: GroupRecord, seen: GroupProgress) -> tuple[CarriedOffset, ...]:
    try:
        return await tools.maps.between(record.link).to_target(seen.offsets or ())
    except ControlError:  # a map that was there a moment ago
        return ()
