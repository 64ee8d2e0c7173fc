"""What to commit of a group's translated offsets. Pure: what the target holds goes in, what to commit comes out."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

Partition = tuple[str, int]

NOTHING = -1
"""The group has committed nothing for the partition."""


class Outcome(StrEnum):
    """What became of one offset.

    COMMITTED: written, and read back. UNCHANGED: the target had it already. AHEAD: the target had a higher one,
    which was left. REFUSED: the group has members on the target, so nothing of it was written. NOT_MIRRORED: there
    is no target offset. FAILED: the write was refused, or what was read back is not what was written.
    """

    COMMITTED = "committed"
    UNCHANGED = "unchanged"
    AHEAD = "ahead"
    REFUSED = "refused"
    NOT_MIRRORED = "not_mirrored"
    FAILED = "failed"


class Wanted(NamedTuple):
    """An offset to commit; None for a partition without a target offset."""

    target_offset: int | None
    metadata: str


def to_commit(wanted: Mapping[Partition, Wanted], held: Mapping[Partition, int]) -> dict[Partition, tuple[int, str]]:
    """The offsets to write: those that are ahead of what the target holds. A group is never rewound."""
    return {
        key: (value.target_offset, value.metadata)
        for key, value in wanted.items()
        if value.target_offset is not None and value.target_offset > held.get(key, NOTHING)
    }


def outcome(wanted: Wanted, before: int, after: int) -> Outcome:
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
