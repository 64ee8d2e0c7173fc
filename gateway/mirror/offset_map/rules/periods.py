"""The mirror periods of a topic: to the target, back to the source, to the target again. Pure.

Each period, from one cutover to the next, has offset maps of its own. So an offset belongs to the last period that
began at or below it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway.mirror.rules.copy_ends import CopyEnds
from gateway.state.per_partition import handed_over
from gateway.state.records import Cutover, MirrorDirection, MirrorRecord, MirrorState

KEPT: Final = 6
"""How many cutovers a record remembers before its last one."""


def begin_of(record: MirrorRecord) -> Cutover | None:
    """Where the present mirror period began; None for the first one.

    Raises:
        WrongLength: the record does not have an entry for every partition.
    """
    found = handed_over(record)
    if found is None:
        return None
    copy, origin = found
    return Cutover(copy, origin) if record.is_reverse else Cutover(origin, copy)


def at_end(record: MirrorRecord, ends: CopyEnds) -> MirrorRecord:
    """The record that the cutover of a mirror, stopped under a write pause, would write: its maps are read up to these
    ends, and not as far as the map topic happens to reach."""
    cutover = replace(record.cutover, stopped_at=ends.mirrored, stopped_copy_at=ends.copied)
    return replace(record, state=MirrorState.STOPPED, cutover=cutover)


def remembered(record: MirrorRecord) -> tuple[Cutover, ...]:
    """The `cutovers` of the record that follows this one at the next cutover."""
    if record.failback.reverse_starts:
        return ()  # the copy was filled again: its relation to earlier offsets is unknown
    begin = begin_of(record)
    known = record.failback.cutovers
    return known if begin is None else (*known, begin)[-KEPT:]


def before(record: MirrorRecord) -> MirrorRecord | None:
    """The record of the previous mirror period as it was at its end; None if there was none, or no record remembers
    it."""
    end = begin_of(record)
    if end is None or not (any(end.source) or any(end.target)):
        return None
    reverse, present = not record.is_reverse, record.failback
    epoch = present.epoch - 1 if reverse else present.epoch
    first = epoch == 0 and not reverse
    if epoch < 0 or not (first or present.cutovers):
        return None
    begin = Cutover((), ()) if first else present.cutovers[-1]
    return replace(
        record,
        state=MirrorState.STOPPED,
        cutover=replace(
            record.cutover,
            stopped_at=end.target if reverse else end.source,
            stopped_copy_at=end.source if reverse else end.target,
        ),
        failback=replace(
            present,
            direction=MirrorDirection.REVERSE if reverse else MirrorDirection.FORWARD,
            epoch=epoch,
            handed_over_at=begin.source if reverse else begin.target,
            handed_over_from=begin.target if reverse else begin.source,
            cutovers=present.cutovers[:-1],
        ),
    )


def at_its_end(record: MirrorRecord) -> MirrorRecord:
    """A record whose mirror back is given up, with the ends of the forward period before. It is still in reverse."""
    earlier = before(record) if record.is_reverse else None
    if earlier is None:
        if record.cutover.stopped_at:
            return record  # the copy was not started again yet
        copy, origin = handed_over(record) or ((), ())
        return replace(record, cutover=replace(record.cutover, stopped_at=copy, stopped_copy_at=origin))
    began = replace(
        record.failback,
        handed_over_at=earlier.failback.handed_over_at,
        handed_over_from=earlier.failback.handed_over_from,
        cutovers=earlier.failback.cutovers,
    )
    return replace(record, cutover=earlier.cutover, failback=began)
