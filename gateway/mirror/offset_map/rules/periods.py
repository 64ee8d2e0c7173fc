"""The ways that the records of a mirror topic have gone: to the target, back to the source, to the target again. Pure.

Each mirror period has offset maps of its own, from the change of sides with which it began to the next one. So an
offset belongs to the last mirror period that began at or below it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway.mirror.rules.copy_ends import CopyEnds
from gateway.state.per_partition import handed_over
from gateway.state.records import Cutover, MirrorDirection, MirrorRecord, MirrorState

KEPT: Final = 6
"""Changes of sides that a record remembers before its last one."""


def begin_of(record: MirrorRecord) -> Cutover | None:
    """Where the present mirror period began; None where it is the first one.

    Raises:
        WrongLength: the record does not say it of every partition.
    """
    found = handed_over(record)
    if found is None:
        return None
    copy, origin = found
    return Cutover(copy, origin) if record.is_reverse else Cutover(origin, copy)


def at_end(record: MirrorRecord, ends: CopyEnds) -> MirrorRecord:
    """The record of a mirror that was stopped under a write pause, as its cutover would have it: its maps are read up
    to these ends, and not as far as the map's topic happens to tell."""
    cutover = replace(record.cutover, stopped_at=ends.mirrored, stopped_copy_at=ends.copied)
    return replace(record, state=MirrorState.STOPPED, cutover=cutover)


def remembered(record: MirrorRecord) -> tuple[Cutover, ...]:
    """The `cutovers` of the record that follows it when the topic changes sides."""
    if record.failback.reverse_starts:
        return ()  # the copy was filled anew: how it relates to what was before is not known
    begin = begin_of(record)
    known = record.failback.cutovers
    return known if begin is None else (*known, begin)[-KEPT:]


def before(record: MirrorRecord) -> MirrorRecord | None:
    """The record of the mirror period before, as it was when that ended; None where there was none, or nobody
    remembers it."""
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
    """A record whose mirror back is given up, telling how the way to the target ended. It is still in reverse."""
    earlier = before(record) if record.is_reverse else None
    if earlier is None:
        if record.cutover.stopped_at:
            return record  # the copy was not begun anew yet
        copy, origin = handed_over(record) or ((), ())
        return replace(record, cutover=replace(record.cutover, stopped_at=copy, stopped_copy_at=origin))
    began = replace(
        record.failback,
        handed_over_at=earlier.failback.handed_over_at,
        handed_over_from=earlier.failback.handed_over_from,
        cutovers=earlier.failback.cutovers,
    )
    return replace(record, cutover=earlier.cutover, failback=began)
