"""Batches of lockgate's own topics, read back by another implementation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from protocol.batch.header import iter_batches
from protocol.batch.keyed import keyed_batch
from protocol.batch.record_reader import read_records

records = st.lists(st.tuples(st.binary(max_size=40), st.none() | st.binary(max_size=300)), min_size=1, max_size=200)


@given(records, st.integers(0, 2**45))
def test_is_read_back(written: list[tuple[bytes, bytes | None]], timestamp_ms: int) -> None:
    data = keyed_batch(written, timestamp_ms)
    ((header, batch),) = iter_batches(memoryview(data))
    assert [(r.key, r.value) for r in read_records(header, batch)] == written
    others = MemoryRecords(data).next_batch()
    assert others.validate_crc()
    assert [(r.key, r.value, r.timestamp) for r in others] == [(*each, timestamp_ms) for each in written]


def test_no_record() -> None:
    with pytest.raises(ValueError, match="without records"):
        keyed_batch([], 0)
