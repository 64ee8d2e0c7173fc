"""Where a mirror stands, read from its running partitions at one moment: the content of a cutover's record.

A measurement reported by another gateway may be complete and yet too low, and this process knows nothing about a
partition that it gave away. So a topic has an answer only while all its partitions run in this process; a partition
that does not is None, never an empty value that could pass for an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.state.producer_entries import ProducerEntry


class PartitionEnd(NamedTuple):
    """One partition that runs here.

    `mirrored_to`: the next offset of the origin to mirror; `copy_end`: the copy's log end that corresponds to it;
    `producers`: the last fetched batches of each producer, oldest first, at their offsets on the copy; some may not be
    on the copy yet. `following`: for each of these batches, the offset after it on the origin, where asked for.
    `warm`: everything that can be known about the producers was read, and no append has an unknown outcome.
    """

    mirrored_to: int
    copy_end: int
    producers: Sequence[ProducerEntry]
    warm: bool
    following: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class CopyEnds:
    """The ends of every partition of a topic, in order: see `PartitionEnd`."""

    mirrored: tuple[int, ...]
    copied: tuple[int, ...]
    producers: tuple[Sequence[ProducerEntry], ...]

    def covers(self, partitions: int) -> bool:
        """True when there is an entry for each of `partitions` partitions."""
        return len(self.mirrored) == len(self.copied) == len(self.producers) == partitions


class RunningPartitions(NamedTuple):
    """Which partitions of a mirror run here. `absent`: those that do not; `cold`: those that run and are not warm.

    `mirrored`: for each partition the next offset of the origin to mirror; -1 where that is not known here.
    `batches`: how many producer batches a cutover would hand over now.
    """

    mirrored: tuple[int, ...]
    absent: tuple[int, ...] = ()
    cold: tuple[int, ...] = ()
    batches: int = 0


def whole(found: Sequence[PartitionEnd | None]) -> CopyEnds | None:
    """The ends of the whole topic; None unless every partition is here and warm."""
    here = [one for one in found if one is not None and one.warm]
    if not here or len(here) != len(found):
        return None
    return CopyEnds(
        tuple(one.mirrored_to for one in here),
        tuple(one.copy_end for one in here),
        tuple(one.producers for one in here),
    )
