"""How far whole batches reach: held against `iter_batches`, which looks at all of each."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.batch.extent import extent
from protocol.batch.header import HEADER_BYTES, OldFormat, iter_batches
from protocol.batch.keyed import keyed_batch
from protocol.errors import MalformedFrame


def log_of(counts: list[int]) -> bytes:
    """Batches of so many records, one behind the other."""
    pieces, offset = [], 0
    for count in counts:
        batch = bytearray(keyed_batch([(b"k", b"v" * count)] * count, 0))
        struct.pack_into(">q", batch, 0, offset)
        pieces.append(bytes(batch))
        offset += count
    return b"".join(pieces)


@given(
    counts=st.lists(st.integers(1, 5), max_size=8),
    end=st.integers(0, 45),
    cut=st.integers(0, 400),
)
def test_it_is_where_whole_batches_below_the_end_stop(counts: list[int], end: int, cut: int) -> None:
    log = log_of(counts)
    records = memoryview(log)[: max(0, len(log) - cut)]
    size, last, past = 0, None, False
    for header, batch in iter_batches(records):
        if header.last_offset >= end:
            past = True
            break
        size, last = size + len(batch), header
    found = extent(records, end)
    assert (found.size, found.last) == (size, last)
    assert found.ended or not past
    assert not found.ended or sum(counts) >= end


def test_a_batch_of_no_size_is_named() -> None:
    log = bytearray(log_of([1, 1]))
    struct.pack_into(">i", log, 8, 3)
    with pytest.raises(MalformedFrame, match="3 bytes at offset 0"):
        extent(memoryview(log), 10)


def test_an_old_format_is_told() -> None:
    log = bytearray(log_of([1, 1]))
    log[len(log) // 2 + 16] = 1
    with pytest.raises(OldFormat, match="v1"):
        extent(memoryview(log), 10)


def test_nothing() -> None:
    assert extent(memoryview(b""), 10) == (0, None, False)
    assert extent(memoryview(bytes(HEADER_BYTES - 1)), 10) == (0, None, False)
