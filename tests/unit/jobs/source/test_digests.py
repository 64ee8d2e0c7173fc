"""Blocks of batches summed up as the audit's report describes it, in whatever chunks and ranges they come."""

from __future__ import annotations

import itertools
import struct
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from gateway.jobs.schemas import BLOCK_BITS
from gateway.jobs.source.digests import BlockSums
from gateway.jobs.source.ranges import OffsetRange, aligned
from gateway.net.range_reader import Chunk
from protocol.keyed_batch import keyed_batch
from protocol.records import CONTROL, batch_digest, iter_batches

BLOCK = 1 << BLOCK_BITS


def batch_at(offset: int, count: int, attributes: int = 0) -> bytes:
    batch = bytearray(keyed_batch([(b"k", b"%d" % offset)] * count, 0))
    struct.pack_into(">q", batch, 0, offset)
    struct.pack_into(">h", batch, 21, attributes)
    return bytes(batch)


def chunk_of(batches: list[bytes], aborted: tuple[int, ...] = ()) -> Chunk:
    records = memoryview(b"".join(batches))
    headers = [header for header, _ in iter_batches(records)]
    bounds = [sum(map(len, batches[:index])) for index in range(len(batches) + 1)]
    return Chunk(headers, [header.base_offset in aborted for header in headers], bounds, records)


def test_a_block_s_digest_is_that_of_the_report() -> None:
    batches = [batch_at(BLOCK - 20, 10), batch_at(BLOCK - 10, 10), batch_at(BLOCK, 3), batch_at(BLOCK + 7, 1)]
    sums = BlockSums("t", 4)
    sums.add(chunk_of(batches[:1]))
    sums.add(chunk_of(batches[1:]))

    rows = sums.rows()

    hexes = [batch_digest(data, header).hex() for one in batches for header, data in iter_batches(memoryview(one))]
    assert [row[:7] for row in rows] == [
        ("t", 4, 0, 2, 20, BLOCK - 20, BLOCK - 1),
        ("t", 4, 1, 2, 4, BLOCK, BLOCK + 7),
    ]
    assert [row[7] for row in rows] == [sha256("".join(hexes[n : n + 2]).encode()).hexdigest() for n in (0, 2)]


def test_a_batch_at_another_place_shows() -> None:
    found = []
    for offset in (10, 11):
        sums = BlockSums("t", 0)
        sums.add(chunk_of([batch_at(0, 10), batch_at(offset, 1), batch_at(20, 1)]))
        found.append(sums.rows()[0])
    assert found[0][8] != found[1][8]


def test_what_consumers_do_not_see_is_left_out() -> None:
    sums = BlockSums("t", 0)
    sums.add(chunk_of([batch_at(0, 1), batch_at(1, 1, CONTROL), batch_at(2, 1)], aborted=(2,)))
    assert [row[3:7] for row in sums.rows()] == [(1, 1, 0, 0)]
    assert BlockSums("t", 0).rows() == []


@given(cuts=st.lists(st.integers(1, 400), max_size=8), start=st.integers(0, 50), bits=st.integers(0, 6))
def test_aligned_ranges_share_no_block(cuts: list[int], start: int, bits: int) -> None:
    borders = sorted({start, *(start + cut for cut in cuts)})
    ranges = [OffsetRange("t", 0, low, high) for low, high in itertools.pairwise(borders)]
    ranges.append(OffsetRange("u", 0, 5, 9))

    found = sorted(aligned(list(reversed(ranges)), bits), key=lambda one: (one.topic, one.start))

    assert found[-1] == OffsetRange("u", 0, 5, 9)
    mine = found[:-1]
    assert [one.start for one in mine[1:]] == [one.end for one in mine[:-1]]
    assert all(one.start % (1 << bits) == 0 for one in mine[1:])
    assert all(one.size for one in mine)
    if borders[1:]:
        assert (mine[0].start, mine[-1].end) == (borders[0], borders[-1])
