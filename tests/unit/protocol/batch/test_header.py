"""Record batches: headers as kafka-python and kio read them; rewriting changes what it must and nothing else.

How far whole batches reach: held against `iter_batches`, which looks at all of each.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from protocol.batch.header import (
    HEADER_BYTES,
    BatchHeader,
    OldFormat,
    crc_is_valid,
    extent,
    iter_batches,
    mirror_sequence,
    padding_batch,
    producer_id_of,
    read_batch_header,
    rewrite_batch,
    with_producer_id,
)
from protocol.batch.keyed import keyed_batch
from protocol.batch.padding import MAX_PADDING
from protocol.errors import MalformedFrame

INT64 = st.integers(0, 2**63 - 1)
INT31 = st.integers(0, 2**31 - 1)
RECORD = st.tuples(INT64, st.one_of(st.none(), st.binary(max_size=20)), st.one_of(st.none(), st.binary(max_size=50)))


def built(records: list[tuple[int, bytes | None, bytes | None]], **options: Any) -> bytes:
    """A batch by kafka-python's own builder."""
    defaults: dict[str, Any] = {
        "magic": 2,
        "compression_type": 0,
        "is_transactional": False,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "batch_size": 1 << 20,
    }
    builder = DefaultRecordBatchBuilder(**(defaults | options))
    for offset, (timestamp, key, value) in enumerate(records):
        assert builder.append(offset, timestamp=timestamp, key=key, value=value, headers=[("h", b"v")]) is not None
    return bytes(builder.build())


def stored(batch: bytes, base_offset: int, epoch: int = 3, attributes: int = 0) -> bytes:
    """The batch as a broker stores it: with offset and epoch, and with attribute bits set."""
    copy = bytearray(batch)
    struct.pack_into(">q", copy, 0, base_offset)
    struct.pack_into(">i", copy, 12, epoch)
    (old,) = struct.unpack_from(">h", copy, 21)
    struct.pack_into(">h", copy, 21, old | attributes)
    struct.pack_into(">I", copy, 17, crc32c(bytes(copy[21:])))
    return bytes(copy)


BATCHES = st.builds(
    stored,
    st.builds(
        built,
        st.lists(RECORD, min_size=1, max_size=10),
        compression_type=st.sampled_from([0, 1]),
        is_transactional=st.booleans(),
        producer_id=INT64,
        producer_epoch=st.integers(0, 32767),
        base_sequence=INT31,
    ),
    base_offset=st.integers(0, 2**62),
    attributes=st.sampled_from([0, 0x08, 0x20, 0x40, 0x68]),
)


@given(BATCHES)
def test_headers_are_what_kafka_python_reads(batch: bytes) -> None:
    ours = read_batch_header(batch)
    theirs = DefaultRecordBatch(batch)
    assert ours.base_offset == theirs.base_offset
    assert ours.partition_leader_epoch == theirs.leader_epoch
    assert ours.magic == theirs.magic
    assert ours.crc == theirs.crc
    assert ours.attributes == theirs.attributes
    assert ours.codec == theirs.compression_type
    assert ours.is_transactional == theirs.is_transactional
    assert ours.is_control == theirs.is_control_batch
    assert ours.is_log_append_time == bool(theirs.timestamp_type)
    assert ours.max_timestamp == theirs.max_timestamp
    assert ours.base_timestamp == theirs.first_timestamp
    assert ours.producer_id == theirs.producer_id
    assert ours.producer_epoch == theirs.producer_epoch
    assert ours.base_sequence == theirs.base_sequence
    assert ours.last_offset_delta == theirs.last_offset_delta
    assert ours.count == theirs.records_count
    assert ours.size == len(batch)
    assert ours.next_offset == theirs.next_offset == ours.last_offset + 1
    assert ours.is_dense
    assert crc_is_valid(memoryview(batch), ours)


@given(BATCHES, st.integers(0, 2**63 - 1), INT31)
def test_rewriting_keeps_every_record(batch: bytes, producer_id: int, sequence: int) -> None:
    copy = rewrite_batch(memoryview(batch), producer_id=producer_id, sequence=sequence)
    before, after = read_batch_header(batch), read_batch_header(copy)
    assert after == before._replace(
        base_offset=0,
        partition_leader_epoch=-1,
        crc=after.crc,
        attributes=before.attributes & ~0x58,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )
    assert crc_is_valid(memoryview(copy), after)
    assert DefaultRecordBatch(bytes(copy)).validate_crc()
    assert copy[HEADER_BYTES:] == batch[HEADER_BYTES:]
    assert len(copy) == len(batch)


@given(BATCHES, st.integers(0, 2**63 - 1), st.booleans())
def test_another_producer_id_is_all_that_changes(batch: bytes, producer_id: int, broken: bool) -> None:
    if broken:
        batch = batch[:-1] + bytes([batch[-1] ^ 1])
    copy = with_producer_id(batch, producer_id)
    after = read_batch_header(copy)
    assert producer_id_of(copy) == producer_id
    assert after == read_batch_header(batch)._replace(crc=after.crc, producer_id=producer_id)
    assert crc_is_valid(memoryview(copy), after) is not broken  # what was broken stays so
    assert copy[HEADER_BYTES:] == batch[HEADER_BYTES:]
    assert bytes(with_producer_id(copy, read_batch_header(batch).producer_id)) == batch


def test_what_is_no_batch_has_no_producer() -> None:
    assert [producer_id_of(data) for data in (b"", bytes(HEADER_BYTES - 1), bytes(HEADER_BYTES))] == [-1, -1, -1]


def test_rewriting_leaves_the_original_alone() -> None:
    batch = built([(1, b"k", b"v")])
    again = bytes(batch)
    rewrite_batch(memoryview(batch), producer_id=5, sequence=6)
    assert batch == again


@given(st.lists(BATCHES, min_size=1, max_size=5), st.data())
def test_batches_are_cut_apart_and_a_truncated_tail_is_left(batches: list[bytes], data: st.DataObject) -> None:
    records = memoryview(b"".join(batches))
    assert [bytes(view) for _, view in iter_batches(records)] == batches
    missing = data.draw(st.integers(1, len(batches[-1])))
    assert [bytes(view) for _, view in iter_batches(records[:-missing])] == batches[:-1]


def test_batches_are_slices_not_copies() -> None:
    records = memoryview(bytearray(built([(1, b"k", b"v")])))
    ((_, view),) = iter_batches(records)
    assert view.obj is records.obj


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_named_after_what_came_before(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1000)
    builder.append(0, timestamp=1, key=b"k", value=b"v")
    old = bytes(builder.build())
    assert len(old) < HEADER_BYTES
    new = built([(1, b"k", b"v")])
    batches = iter_batches(memoryview(new + old))
    assert next(batches)[0].count == 1
    with pytest.raises(OldFormat, match=f"v{magic}"):
        next(batches)
    with pytest.raises(OldFormat):
        list(iter_batches(memoryview(old + old + old)))


def _with(**fields: int) -> memoryview:
    """A batch of 62 bytes with some header fields changed."""
    header = BatchHeader(0, 50, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)._replace(**fields)
    return memoryview(struct.pack(">qiibIhiqqqhii", *header) + b"x")


@pytest.mark.parametrize(
    "fields",
    [
        {"length": -1},
        {"length": 48},
        {"length": -(2**31)},
        {"last_offset_delta": -1},
        {"base_offset": -1},
        {"magic": 3},
    ],
)
def test_batches_that_cannot_be_are_malformed(fields: dict[str, int]) -> None:
    with pytest.raises(MalformedFrame):
        list(iter_batches(_with(**fields)))


def test_a_batch_that_claims_2_gb_is_a_truncated_tail() -> None:
    assert list(iter_batches(_with(length=2**31 - 1))) == []


@pytest.mark.parametrize("size", [0, 1, 16, 60])
def test_too_short_for_a_header(size: int) -> None:
    with pytest.raises(MalformedFrame):
        read_batch_header(bytes(size))
    with pytest.raises(MalformedFrame):
        rewrite_batch(memoryview(bytes(size)), producer_id=1, sequence=1)


@given(st.binary(max_size=300))
def test_random_bytes_raise_nothing_else(data: bytes) -> None:
    try:
        for header, view in iter_batches(memoryview(data)):
            assert header.size == len(view)
    except (MalformedFrame, OldFormat):
        pass


@given(st.lists(BATCHES, min_size=1, max_size=3), st.integers(0, 10**6), st.integers(0, 255))
def test_mutated_batches_raise_nothing_else(batches: list[bytes], at: int, byte: int) -> None:
    data = bytearray(b"".join(batches))
    data[at % len(data)] = byte
    try:
        for header, view in iter_batches(memoryview(data)):
            assert header.size == len(view)
    except (MalformedFrame, OldFormat):
        pass


@pytest.mark.parametrize(
    ("offset", "sequence"), [(0, 0), (7, 7), (2**31 - 1, 2**31 - 1), (2**31, 0), (2**31 + 5, 5), (2**62 + 3, 3)]
)
def test_mirror_sequence_wraps(offset: int, sequence: int) -> None:
    assert mirror_sequence(offset) == sequence


def test_last_sequence_wraps() -> None:
    header = read_batch_header(_with(last_offset_delta=5, base_sequence=2**31 - 3))
    assert header.last_sequence == 2
    assert read_batch_header(_with(base_sequence=-1)).last_sequence == -1


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 8191, 8192, 8193, 20_000])
def test_padding_is_null_records_at_consecutive_offsets(count: int) -> None:
    data = padding_batch(count, sequence=9, producer_id=2**50, timestamp_ms=1234)
    ((header, view),) = iter_batches(memoryview(data))
    assert (header.count, header.last_offset_delta, header.base_sequence) == (count, count - 1, 9)
    assert (header.producer_id, header.producer_epoch, header.max_timestamp) == (2**50, 0, 1234)
    assert crc_is_valid(view, header)
    records = list(MemoryRecords(data).next_batch())
    assert [record.offset for record in records] == list(range(count))
    assert all((r.key, r.value, r.headers, r.timestamp) == (None, None, [], 1234) for r in records)


def test_the_largest_padding_fits_the_default_message_limit_and_decodes_to_the_end() -> None:
    data = padding_batch(MAX_PADDING, 0, 1, 0)
    assert len(data) < 1_048_588
    assert sum(1 for _ in MemoryRecords(data).next_batch()) == MAX_PADDING


@pytest.mark.parametrize("count", [0, -1, MAX_PADDING + 1])
def test_padding_has_limits(count: int) -> None:
    with pytest.raises(ValueError, match="padding"):
        padding_batch(count, 0, 1, 0)


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
