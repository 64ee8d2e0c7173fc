"""A group whose topics fail over: from what is known now to the next step, and to where it goes on. Pure;
`groups/failover.py` gathers and acts.

Theory of operation
-------------------
A failover does not wait for a source that is gone: one that has not answered at all for GONE_S, by the link's health.
While it is not, the group may have members there, and is promoted as ever. What a group had committed there is known
as of the last time it was asked; where that is beyond what was mirrored, the offset is cut to where the copy ended, and
how much was cut is said: those records the group has read, and the target may never have::

    ACTIVE or PENDING_PROMOTED, a topic of the link has failed over, the source is gone
        --READ_TARGET--> what the group holds on the target
        [it reads a topic that failed over; or nothing is known of what it reads, and no topic of the link is the
        source's any more: nothing else is left to be read]
        --PLAN--> its offsets there, by where the copies ended
        --COMMIT, READ_BACK--> the target holds exactly these
        --MARK_PROMOTED--> PROMOTED                             persisted: the gate opens by the record
        DONE

    before MARK_PROMOTED, on any trouble: DONE, with the reason; it is tried again
    the source is not gone, or a group of which nothing is known may read what only the source has: WAIT

Where the copy ended is in the record of a topic that is written on the target (`copy_ends`). It is never the target's
present log end: clients write there from the cutover on, and what they write the group has not read. So a plan is good
only for as long as the records that it was made by are the ones that say where the copies ended.

Interruption. Nothing but the record outlives the process; offsets that were committed twice are the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.groups.rules.source_gone import GONE_S, SourceSeen
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.rules.translation import is_final
from gateway.state.records import CarriedOffset, GroupState, MirrorRecord, SourceOffset

Value = tuple[int, str]
"""A committed offset, and its metadata."""

LIMIT_S = 10.0
"""How long one attempt may take, in seconds; the next one comes by itself."""


class Known(NamedTuple):
    """An offset as last read on the source. `target`: on the target, None where the mirror does not have it.

    `beyond`: source offsets that it is ahead of the mirror.
    """

    source: int
    target: int | None
    beyond: int
    metadata: str = ""


class Cut(NamedTuple):
    """An offset that was beyond the mirror: `records` were read by the group and are not on the target."""

    topic: str
    partition: int
    source_offset: int
    end: int
    records: int


@dataclass(frozen=True, slots=True)
class FailoverPlan:
    """`offsets`: to be committed on the target. `cuts`: those among them that had to be cut."""

    offsets: tuple[CarriedOffset, ...]
    cuts: tuple[Cut, ...]

    @property
    def records(self) -> int:
        """Records of the source that the group has read and the target does not have."""
        return sum(cut.records for cut in self.cuts)


def copy_ends(mirror: MirrorRecord) -> tuple[int, ...] | None:
    """Where the copy on the target ended, per partition, when its topic came to be written there.

    None while the target's log is the mirror's alone, and so ends where the copy does; or while the topic is mirrored
    back, when the target has all that the source has.

    Raises:
        ValueError: the record does not say it for every partition.
    """
    if mirror.is_reverse or not written_on_target(mirror):
        return None
    ends = mirror.cutover.stopped_copy_at
    if len(ends) != len(mirror.starts):
        raise ValueError(
            f"the record of mirror topic '{mirror.mirror_topic}' says for {len(ends)} of {len(mirror.starts)} "
            "partitions where the copy ended when writes came to the target"
        )
    return ends


def plan_failover(
    known: Mapping[TopicPartition, Known],
    held: Mapping[TopicPartition, tuple[int, str]],
    ends: Mapping[TopicPartition, int],
) -> FailoverPlan:
    """Decide every partition's offset.

    Args:
        known: what was read on the source, by mirror topic and partition.
        held: what the group has committed on the target (offset, metadata): by offset sync. Used where the source's
            is not known.
        ends: where what was mirrored ends, in offsets of the target; a partition without one is left out.
    """
    offsets, cuts = [], []
    for key in sorted(ends):
        topic, partition = key
        end = ends[key]
        at = known.get(key)
        if at is not None:
            target = end if at.target is None else min(at.target, end)
            missing = at.beyond + (0 if at.target is None else at.target - target)
            offsets.append(CarriedOffset(topic, partition, at.source, target, at.metadata))
            if missing > 0:
                cuts.append(Cut(topic, partition, at.source, target, missing))
        elif key in held:
            offset, metadata = held[key]
            carried = CarriedOffset(topic, partition, offset, min(offset, end), metadata)
            offsets.append(carried)
            if offset > end:
                cuts.append(Cut(topic, partition, offset, end, offset - end))
    return FailoverPlan(tuple(offsets), tuple(cuts))


def failover_note(plan: FailoverPlan, how: str) -> str:
    """What the operator should know, in numbers. `how`: where the offsets are from."""
    said = [f"failed over: {how}"]
    said += [
        f"{cut.topic}-{cut.partition}: the group was at {cut.source_offset} on the source; cut to {cut.end}, where the "
        f"mirrored records end: {cut.records} record(s) that it has read are not there"
        for cut in plan.cuts
    ]
    return "; ".join(said)


# -- the steps -------------------------------------------------------------------------------------------------


class GroupFailoverStepKind(StrEnum):
    """What to do next. WAIT does nothing: it is asked again later."""

    WAIT = "wait"
    READ_TARGET = "read_target"
    PLAN = "plan"
    COMMIT = "commit"
    READ_BACK = "read_back"
    MARK_PROMOTED = "mark_promoted"
    DONE = "done"


class GroupFailoverStep(NamedTuple):
    """The next step. `reason`: what is waited for, or why the group is not failed over now."""

    kind: GroupFailoverStepKind
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFailoverSnapshot:
    """One group as it is now. Times are monotonic seconds. What was not asked yet is None.

    `mirrors`: of the link, by mirror topic. `known`: what the group had committed on the source when that was last
    read. `held`: what it has on the target. `plan`: its offsets there, made by the records `planned_by`. `committed`:
    they went to the target; `read_back`: what it holds since. `began`: when this attempt did. `source`: how the link's
    source is.
    """

    now: float
    began: float
    group: str
    state: GroupState
    mirrors: Mapping[str, MirrorRecord]
    source: SourceSeen
    known: tuple[SourceOffset, ...] | None = None
    held: Mapping[TopicPartition, Value] | None = None
    plan: FailoverPlan | None = None
    planned_by: Mapping[str, MirrorRecord] = field(default_factory=dict)
    committed: bool = False
    read_back: Mapping[TopicPartition, Value] | None = None


class GroupFailoverViolated(Exception):
    """A step that could let a group read from a place that it was not at. Never expected."""


_K = GroupFailoverStepKind


def next_step(snapshot: GroupFailoverSnapshot) -> GroupFailoverStep:
    """The one thing to do now.

    Raises:
        GroupFailoverViolated: the step is not safe.
    """
    step = _decide(snapshot)
    _check(snapshot, step)
    return step


def _decide(snapshot: GroupFailoverSnapshot) -> GroupFailoverStep:
    if snapshot.state is GroupState.PROMOTED or not any(is_final(mirror) for mirror in snapshot.mirrors.values()):
        return GroupFailoverStep(_K.DONE)
    if not snapshot.source.is_gone:
        return _source_first(snapshot)
    step = _on(snapshot)
    if step.kind not in (_K.DONE, _K.WAIT) and snapshot.now - snapshot.began >= LIMIT_S:
        return GroupFailoverStep(_K.DONE, f"not done in {LIMIT_S:g} s: {step.reason}")
    return step


def _source_first(snapshot: GroupFailoverSnapshot) -> GroupFailoverStep:
    """It is waited for, by those of whom it is not known that they read other topics."""
    read = _topics_read(snapshot)
    if read and not _failed_over(snapshot, read):
        return GroupFailoverStep(_K.DONE)
    trouble = f" ({snapshot.source.trouble})" if snapshot.source.trouble else ""
    return GroupFailoverStep(
        _K.WAIT,
        f"topics of its link failed over: the group goes on without the source once that has not answered at all for "
        f"{GONE_S:g} s, and is promoted as ever before{trouble}",
    )


def _on(snapshot: GroupFailoverSnapshot) -> GroupFailoverStep:
    if snapshot.held is None:
        return GroupFailoverStep(_K.READ_TARGET, "the offsets of the group on the target")
    read = _topics_read(snapshot)
    if read and not _failed_over(snapshot, read):
        return GroupFailoverStep(_K.DONE)
    if not read and (left := _left_on_source(snapshot)):
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        return GroupFailoverStep(
            _K.WAIT,
            f"nothing is known of what the group reads, and '{left[0]}'{more} did not fail over: it goes on once no "
            "topic of the link is the source's any more (lockgate mirror failover), or by what a source that is back "
            "tells of it",
        )
    if snapshot.plan is None:
        return GroupFailoverStep(_K.PLAN, "where the copies of its topics ended")
    if changed := changed_sides(snapshot.planned_by, snapshot.mirrors):
        return GroupFailoverStep(_K.DONE, f"mirror topic '{changed}' was changed meanwhile; try again")
    if not snapshot.committed:
        return GroupFailoverStep(_K.COMMIT, "the target to take the offsets of the group")
    if snapshot.read_back is None:
        return GroupFailoverStep(_K.READ_BACK, "the offsets of the group on the target, once more")
    for key, value in meant(snapshot.plan).items():
        if snapshot.read_back.get(key) != value:
            where = f"{key[0]}-{key[1]}"
            what = f"the target does not hold the offset committed for group '{snapshot.group}' on {where}"
            return GroupFailoverStep(_K.DONE, what)
    return GroupFailoverStep(_K.MARK_PROMOTED, "the failover of the group to be stored")


def _topics_read(snapshot: GroupFailoverSnapshot) -> frozenset[str]:
    """Mirror topics that it is known to read; empty when nothing is known of what it reads."""
    names = {offset.topic for offset in snapshot.known or ()} | {name for name, _ in snapshot.held or ()}
    return frozenset(names & snapshot.mirrors.keys())


def _failed_over(snapshot: GroupFailoverSnapshot, topics: Iterable[str]) -> bool:
    return any(is_final(snapshot.mirrors[topic]) for topic in topics)


def _left_on_source(snapshot: GroupFailoverSnapshot) -> list[str]:
    """Topics that are written on the source still: whoever reads them cannot go on from nothing."""
    return sorted(topic for topic, mirror in snapshot.mirrors.items() if not written_on_target(mirror))


def _check(snapshot: GroupFailoverSnapshot, step: GroupFailoverStep) -> None:
    """What must hold before a step that cannot be taken back: a second opinion."""
    if step.kind not in (_K.COMMIT, _K.MARK_PROMOTED):
        return
    if snapshot.state is GroupState.PROMOTED:
        raise GroupFailoverViolated(f"{step.kind} of group '{snapshot.group}', which is PROMOTED")
    if not snapshot.source.is_gone:
        raise GroupFailoverViolated(f"{step.kind} of group '{snapshot.group}', whose source is not gone")
    if not _topics_read(snapshot) and _left_on_source(snapshot):
        raise GroupFailoverViolated(f"{step.kind} of group '{snapshot.group}', of which nothing is known")
    if snapshot.plan is None or changed_sides(snapshot.planned_by, snapshot.mirrors):
        raise GroupFailoverViolated(f"{step.kind} of group '{snapshot.group}' by where its copies do not end")
    if step.kind is _K.MARK_PROMOTED:
        held = snapshot.read_back
        if held is None or any(held.get(key) != value for key, value in meant(snapshot.plan).items()):
            raise GroupFailoverViolated(f"group '{snapshot.group}' would be PROMOTED without its offsets on the target")


def meant(plan: FailoverPlan) -> Mapping[TopicPartition, Value]:
    """What the target is to hold."""
    return {(o.topic, o.partition): (o.target_offset, o.metadata) for o in plan.offsets}


def changed_sides(planned_by: Mapping[str, MirrorRecord], now: Mapping[str, MirrorRecord]) -> str:
    """The first topic whose record does not say any more where its copy ended; '' when all do."""
    return next((t for t, one in planned_by.items() if t not in now or _sides(now[t]) != _sides(one)), "")


def _sides(mirror: MirrorRecord) -> tuple[object, ...]:
    """What of a record says where its copy ends, and in which numbers."""
    ends = mirror.cutover.stopped_at, mirror.cutover.stopped_copy_at, mirror.failback.handed_over_at, mirror.starts
    return (
        mirror.mirror_id,
        mirror.failback.epoch,
        mirror.failback.direction,
        written_on_target(mirror),
        mirror.mode,
        ends,
    )
