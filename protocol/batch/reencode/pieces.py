"""The results of the slow path: pieces and skips."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.errors import MalformedFrame
from protocol.wire import Buffer

Runs = tuple[tuple[int, int], ...]
"""(source offset, records) of each stretch of consecutive source offsets, ascending."""


class CorruptRecords(MalformedFrame):
    """Records whose bytes are not what a broker wrote. Everything before them has been yielded.

    Attributes:
        offset: source offset of the batch (for formats v0 and v1: of the message).
    """

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(f"the records at source offset {offset}: {why}")
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Piece:
    """One batch to append.

    `data` is a batch of format v2 with `count` records at offset deltas 0 .. count-1, no control batch, with the
    records' own timestamps. It may carry the source's producer and the transactional and delete horizon bits, which
    `rewrite_batch` (`protocol/batch/header.py`) removes.

    `runs`: the source offsets of the records; their counts sum up to `count`.
    `next_source`: where reading resumes after this piece: after its last record, or after the whole source batch if
    nothing of that is left.
    `leader_epoch`: of the source batch, -1 where its format has none.
    """

    data: Buffer
    count: int
    runs: Runs
    next_source: int
    max_timestamp: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Skip:
    """Nothing to append below `next_source`: markers, aborted transactions, empty batches."""

    next_source: int
    leader_epoch: int = -1
