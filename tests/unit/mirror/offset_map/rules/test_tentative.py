"""Whether the log has the batch that a chunk was written for, and breakpoints in order."""

from __future__ import annotations

import pytest

from gateway.mirror.offset_map.rules.codec import Chunk
from gateway.mirror.offset_map.rules.tentative import TentativeChunk, ascending
from protocol.batch.header import BatchHeader, read_batch_header
from tests.support.mirror.batches import make_batch


def header(base: int, count: int, *, spread: int | None = None) -> BatchHeader:
    """`spread`: the last offset's delta, where compaction has thinned the batch out."""
    return read_batch_header(make_batch(base, count, last_offset_delta=spread))


def chunk(base: int, records: int, crc: int, *breakpoints: tuple[int, int]) -> TentativeChunk:
    return TentativeChunk(base, Chunk.of(records, crc, breakpoints))


def test_the_batch_is_known_by_its_place_its_records_and_its_crc() -> None:
    there = header(10, 3)
    assert chunk(10, 3, there.crc).is_in(there)
    assert not chunk(10, 3, there.crc ^ 1).is_in(there)
    assert not chunk(10, 2, there.crc).is_in(there)
    assert not chunk(11, 3, there.crc).is_in(there)


@pytest.mark.parametrize("later", [None, header(20, 1)])
def test_one_that_retention_or_compaction_has_taken_is_taken_for_it(later: BatchHeader | None) -> None:
    assert chunk(10, 3, 1).is_in(later)


def test_one_that_compaction_has_thinned_out_has_another_crc() -> None:
    thin = header(10, 2, spread=2)
    assert chunk(10, 3, thin.crc ^ 1).is_in(thin)
    assert not chunk(10, 4, thin.crc).is_in(thin)


def test_breakpoints_ascend_also_where_chunks_overlap() -> None:
    apart = [chunk(20, 5, 0, (70, 20), (90, 22)), chunk(10, 5, 0, (50, 10))]
    assert list(ascending(apart)) == [(10, 50), (20, 70), (22, 90)]
    overlapping = [chunk(10, 5, 0, (50, 10), (60, 14)), chunk(12, 5, 0, (55, 12))]
    assert list(ascending(overlapping)) == [(10, 50), (12, 55), (14, 60)]
