"""Pieces of partitions: what is read of each cluster so that both sides have the same records whole. Pure.

A reader gives a batch to the range of its last offset. Where the two clusters have other batches, the end of a piece
can lie inside a batch of one of them; so reading goes on a little behind the end, and what begins there is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

Partition = tuple[str, int]

SLACK: Final = 1 << 20
"""Offsets that are read behind an end, to have the batch whole that the end lies in."""


class Span(NamedTuple):
    """Offsets low .. high - 1."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Side:
    """A piece on one cluster: the offsets to compare, and where the log ends.

    `is_last`: nothing after it is compared, so the batch that its end lies in belongs to it.
    """

    wanted: Span
    log_end: int
    is_last: bool = True

    def for_batches(self) -> Span:
        """What to read to compare batches."""
        return self.with_slack() if self.is_last else self.wanted

    def with_slack(self) -> Span:
        """What to read so that every batch with a wanted record is there."""
        return Span(self.wanted.low, min(self.log_end, self.wanted.high + SLACK))

    def for_records(self, batches: Span | None) -> Span:
        """What to read so that the wanted records of some batches are there.

        Args:
            batches: first offset of the first, and the offset after the last; None when this side has none.
        """
        if batches is None:
            return Span(self.wanted.low, self.wanted.low)
        return Span(max(self.wanted.low, batches.low), min(self.log_end, batches.high))


@dataclass(frozen=True, slots=True)
class Piece:
    """The same offsets on both clusters."""

    source: Side
    target: Side


Pieces = Mapping[Partition, Piece]
