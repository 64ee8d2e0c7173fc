"""The lists of a mirror's record that have one entry per partition. Pure.

Such a list is whole, or it is empty and says that there is nothing of its kind (no flip, nothing handed over). Any
other length is an error where the list is read: an entry that is not there has no value that could be taken instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.domain.records import Flip, LostRecords, MirrorMode, MirrorRecord, PartitionStart

_NEW: dict[str, Any] = {  # what a partition has that was added after the list was written
    "starts": PartitionStart(0, 0),
    "reverse_starts": PartitionStart(0, 0),
    "handed_over_at": 0,
    "handed_over_from": 0,
    "stopped_at": 0,
    "stopped_copy_at": 0,
    "not_mirrored": 0,
    "producers": (),
    "lost": LostRecords(0, 0),
}


class WrongLength(ValueError):
    """A list of a mirror's record has not one entry per partition."""


def of_each(record: MirrorRecord, name: str) -> Any:
    """The list `name` of a record, an entry per partition.

    Raises:
        WrongLength: it has more or fewer.
    """
    found = getattr(record, name)
    if len(found) != len(record.starts):
        raise WrongLength(
            f"the record of mirror topic '{record.mirror_topic}' has {len(found)} entries in {name}, the topic "
            f"{len(record.starts)} partitions: how its logs belong together is not known; delete the mirror and create "
            "it anew"
        )
    return found


def of_each_or_none(record: MirrorRecord, name: str) -> Any:
    """As `of_each`; empty where the record has nothing of the kind."""
    return of_each(record, name) if getattr(record, name) else ()


def handed_over(record: MirrorRecord) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(the copy's log ends when the present way began, the origin's); None on the first way.

    Raises:
        WrongLength: one of the two is missing, or not whole.
    """
    if not record.handed_over_at and not record.handed_over_from:
        return None
    return of_each(record, "handed_over_at"), of_each(record, "handed_over_from")


def stopped(record: MirrorRecord) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(the origin's log ends at the flip, the copy's); None without one.

    Raises:
        WrongLength: one of the two is missing, or not whole.
    """
    if not record.stopped_at and not record.stopped_copy_at:
        return None
    return of_each(record, "stopped_at"), of_each(record, "stopped_copy_at")


def grown(record: MirrorRecord, partitions: int) -> MirrorRecord:
    """The record when its topic has so many partitions: those that are new have nothing behind them."""
    added = partitions - len(record.starts)
    if added <= 0:
        return record
    changes = {
        name: getattr(record, name) + (new,) * added
        for name, new in _NEW.items()
        if name == "starts" or getattr(record, name)
    }
    none = (0,) * added
    flips = tuple(Flip(flip.source + none, flip.target + none) for flip in record.flips)
    return replace(record, **changes, flips=flips)


def of_this_version(record: MirrorRecord) -> MirrorRecord:
    """A record as older versions wrote it, in the words of this one; one that is so already is not changed.

    They left out the copy's end where offsets are equal, and did not lengthen lists when partitions were added. What
    cannot be known is left as it is, and is an error where it is read.
    """
    equal = record.mode is MirrorMode.PRESERVE
    changes: dict[str, Any] = {}
    if record.stopped_at and not record.stopped_copy_at and equal:
        changes["stopped_copy_at"] = record.stopped_at
    if record.handed_over_at and not record.handed_over_from and (equal or not any(record.handed_over_at)):
        changes["handed_over_from"] = record.handed_over_at
    record = replace(record, **changes) if changes else record
    for pair in (("stopped_at", "stopped_copy_at"), ("handed_over_at", "handed_over_from"), ("producers",)):
        lengths = {len(getattr(record, name)) for name in pair}
        missing = len(record.starts) - min(lengths)
        if len(lengths) == 1 and lengths != {0} and missing > 0:
            longer = {name: getattr(record, name) + (_NEW[name],) * missing for name in pair}
            record = replace(record, **longer)
    return record
