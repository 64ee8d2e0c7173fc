"""What to commit of a group's translated offsets. Pure: what the target holds goes in, what to commit comes out."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from gateway.kafka.topic_partition import TopicPartition

NOTHING = -1
"""The group has committed nothing for the partition."""


class Outcome(StrEnum):
    """What became of one offset.

    COMMITTED: written, and read back. UNCHANGED: the target had it already. AHEAD: the target had a higher one,
    which was left. REFUSED: nothing of the group was written: it has members on the target, or was promoted, or another
    of its offsets is not exact. NOT_EXACT: that one: the record that would be read next is not the source's.
    NOT_MIRRORED: there is no target offset. FAILED: the write was refused, or what was read back is something else.
    """

    COMMITTED = "committed"
    UNCHANGED = "unchanged"
    AHEAD = "ahead"
    REFUSED = "refused"
    NOT_EXACT = "not_exact"
    NOT_MIRRORED = "not_mirrored"
    FAILED = "failed"


class DesiredCommit(NamedTuple):
    """An offset to commit; None for a partition without a target offset. `exact`: see `schemas.TRANSLATED`; `why`: of
    one that is not."""

    target_offset: int | None
    metadata: str
    exact: bool = True
    why: str = ""


def withheld(
    wanted: Mapping[TopicPartition, DesiredCommit], *, inexact: bool
) -> dict[TopicPartition, tuple[Outcome, str]] | None:
    """Why nothing of a group is committed; None when it may be.

    A group that had half of its offsets would begin the other half anew, by its auto.offset.reset.

    Args:
        inexact: offsets that are not exact are committed too, as somebody asked for it.
    """
    bad = {key for key, value in wanted.items() if value.target_offset is None or not (value.exact or inexact)}
    if not bad:
        return None
    first = min(bad)
    found = {}
    for key, value in wanted.items():
        if key not in bad:
            found[key] = (Outcome.REFUSED, f"{first[0]}-{first[1]} of the same group is not exact")
        else:
            what = Outcome.NOT_MIRRORED if value.target_offset is None else Outcome.NOT_EXACT
            found[key] = (what, value.why)
    return found


def to_commit(
    wanted: Mapping[TopicPartition, DesiredCommit], held: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[int, str]]:
    """The offsets to write: those that are ahead of what the target holds. A group is never rewound."""
    return {
        key: (value.target_offset, value.metadata)
        for key, value in wanted.items()
        if value.target_offset is not None and value.target_offset > held.get(key, NOTHING)
    }


def outcome(wanted: DesiredCommit, before: int, after: int) -> Outcome:
    """What became of one offset of a group that could be written to.

    Args:
        before, after: what the target held before and after the write, NOTHING for nothing.
    """
    if wanted.target_offset is None:
        return Outcome.NOT_MIRRORED
    if before > wanted.target_offset:
        return Outcome.AHEAD if after >= before else Outcome.FAILED
    if after != wanted.target_offset:
        return Outcome.FAILED
    return Outcome.UNCHANGED if before == wanted.target_offset else Outcome.COMMITTED
