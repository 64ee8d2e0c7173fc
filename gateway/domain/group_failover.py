"""Where a group goes on when its topics fail over: from what is known of it, cut to what was mirrored. Pure.

A failover does not wait for the source. What a group had committed there is known as of the last time it was asked;
where that is beyond what was mirrored, the offset is cut to where the copy ended, and how much was cut is said: those
records the group has read, and the target may never have.

Where the copy ended is in the record of a topic that is written on the target (`copy_ends`). It is never the target's
present log end: clients write there from the flip on, and what they write the group has not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gateway.domain.group_promote import Partition
from gateway.domain.records import CarriedOffset, MirrorMode, MirrorRecord
from gateway.domain.routing_build import written_on_target


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
    ends = mirror.stopped_copy_at
    if not ends and mirror.mode is MirrorMode.PRESERVE:  # the same numbers, in a record of an older version
        ends = mirror.stopped_at
    if len(ends) != len(mirror.starts):
        raise ValueError(
            f"the record of mirror topic '{mirror.mirror_topic}' says for {len(ends)} of {len(mirror.starts)} "
            "partitions where the copy ended when writes came to the target"
        )
    return ends


def plan_failover(
    known: Mapping[Partition, Known], held: Mapping[Partition, tuple[int, str]], ends: Mapping[Partition, int]
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
