"""The ways that the records of a mirror topic have gone: to the target, back to the source, to the target again. Pure.

Each way has offset maps of its own, from the change of sides with which it began to the next one. So an offset belongs
to the last way that began at or below it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gateway.domain.per_partition import handed_over
from gateway.domain.records import Flip, MirrorDirection, MirrorRecord, MirrorState

KEPT: Final = 6
"""Changes of sides that a record remembers before its last one."""


def begin_of(record: MirrorRecord) -> Flip | None:
    """Where the present way began; None where it is the first one.

    Raises:
        WrongLength: the record does not say it of every partition.
    """
    found = handed_over(record)
    if found is None:
        return None
    copy, origin = found
    return Flip(copy, origin) if record.is_reverse else Flip(origin, copy)


def remembered(record: MirrorRecord) -> tuple[Flip, ...]:
    """The `flips` of the record that follows it when the topic changes sides."""
    if record.reverse_starts:
        return ()  # the copy was filled anew: how it relates to what was before is not known
    begin = begin_of(record)
    return record.flips if begin is None else (*record.flips, begin)[-KEPT:]


def before(record: MirrorRecord) -> MirrorRecord | None:
    """The record of the way before, as it was when that ended; None where there was none, or nobody remembers it."""
    end = begin_of(record)
    if end is None or not (any(end.source) or any(end.target)):
        return None
    reverse = not record.is_reverse
    generation = record.generation - 1 if reverse else record.generation
    first = generation == 0 and not reverse
    if generation < 0 or not (first or record.flips):
        return None
    begin = Flip((), ()) if first else record.flips[-1]
    return replace(
        record,
        state=MirrorState.STOPPED,
        direction=MirrorDirection.REVERSE if reverse else MirrorDirection.FORWARD,
        generation=generation,
        stopped_at=end.target if reverse else end.source,
        stopped_copy_at=end.source if reverse else end.target,
        handed_over_at=begin.source if reverse else begin.target,
        handed_over_from=begin.target if reverse else begin.source,
        flips=record.flips[:-1],
    )


def at_its_end(record: MirrorRecord) -> dict[str, Any]:
    """What to change in a record whose mirror back is given up, so that it tells how the way to the target ended."""
    earlier = before(record) if record.is_reverse else None
    if earlier is None:
        if record.stopped_at:
            return {}  # the copy was not begun anew yet
        copy, origin = handed_over(record) or ((), ())
        return {"stopped_at": copy, "stopped_copy_at": origin}
    names = ("stopped_at", "stopped_copy_at", "handed_over_at", "handed_over_from", "flips")
    return {name: getattr(earlier, name) for name in names}
