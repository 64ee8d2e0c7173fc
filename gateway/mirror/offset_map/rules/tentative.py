"""Chunks of an offset map as promises: for which batch, and whether the log has it. Theory: `ledger.py`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from gateway.mirror.offset_map.rules.codec import Chunk
from protocol.batch.header import BatchHeader


class TentativeChunk(NamedTuple):
    """A chunk, and the target offset of the batch that it was written for."""

    base: int
    chunk: Chunk

    def is_in(self, header: BatchHeader | None) -> bool:
        """True when the log holds the promised batch. `header`: of the batch that holds `base`, or of the next one.

        If it is None or of a later batch, retention or compaction has removed the batch; one that compaction has
        thinned out no longer has its CRC. Such old batches count as the promised one.
        """
        if header is None or header.base_offset > self.base:
            return True
        if header.base_offset != self.base or header.last_offset_delta + 1 != self.chunk.records:
            return False
        return header.crc == self.chunk.crc or not header.is_dense


def ascending(tentative: Iterable[TentativeChunk]) -> Iterable[tuple[int, int]]:
    """(target, source) of all breakpoints. Chunks hardly ever overlap; then no list of all breakpoints is built."""
    chunks = [chunk for _, chunk in sorted(tentative, key=lambda one: one.base) if chunk.targets]
    pairs = ((t, s) for chunk in chunks for s, t in zip(chunk.sources, chunk.targets, strict=True))
    apart = all(one.targets[-1] < other.targets[0] for one, other in pairwise(chunks))
    return pairs if apart else sorted(pairs)
