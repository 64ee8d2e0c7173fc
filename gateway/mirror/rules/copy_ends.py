"""Where a mirror stands, as whoever runs its partitions answers at one moment: what a cutover's record is made of.

A measurement that another gateway has told may be complete and yet too low, and of a partition that was given away
nothing is known here. So there is an answer for a topic only while every one of its partitions runs in this process;
what is not here is None, and never an empty value that could be taken for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.state.producer_entries import ProducerEntry


class PartitionEnd(NamedTuple):
    """One partition that runs here.

    `mirrored_to`: the next offset of the origin to be mirrored; `copy_end`: the copy's log end that goes with it;
    `producers`: the last batches of each producer that were fetched, at their offsets on the copy, each one's oldest
    first; some may not be on the copy yet. `following`: for each of these the origin's offset behind it, where asked
    for. `warm`: all that can be
    known of the producers was read, and no append is of unknown outcome.
    """

    mirrored_to: int
    copy_end: int
    producers: Sequence[ProducerEntry]
    warm: bool
    following: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class CopyEnds:
    """Of every partition of a topic, in order: see `PartitionEnd`."""

    mirrored: tuple[int, ...]
    copied: tuple[int, ...]
    producers: tuple[Sequence[ProducerEntry], ...]

    def covers(self, partitions: int) -> bool:
        """There is an entry for each of so many partitions."""
        return len(self.mirrored) == len(self.copied) == len(self.producers) == partitions


class RunningPartitions(NamedTuple):
    """What of a topic's mirror runs here. `absent`: partitions that do not; `cold`: those that run, and are not warm.

    `mirrored`: of each partition the next offset of the origin to be mirrored; -1 where that is not known here.
    `batches`: of producers, that a cutover now would hand over.
    """

    mirrored: tuple[int, ...]
    absent: tuple[int, ...] = ()
    cold: tuple[int, ...] = ()
    batches: int = 0


def whole(found: Sequence[PartitionEnd | None]) -> CopyEnds | None:
    """The answer for the topic; None unless every partition is here and warm."""
    here = [one for one in found if one is not None and one.warm]
    if not here or len(here) != len(found):
        return None
    return CopyEnds(
        tuple(one.mirrored_to for one in here),
        tuple(one.copy_end for one in here),
        tuple(one.producers for one in here),
    )
