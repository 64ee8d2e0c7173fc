"""Batches put together keep every record as it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.batch.header import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    crc_is_valid,
    iter_batches,
    read_batch_header,
)
from protocol.batch.merge import merged
from protocol.batch.record_reader import Record, read_records
from protocol.errors import MalformedFrame
from tests.support.mirror.batches import make_batch
from tests.support.mirror.source_log import Given, v2_batch

PID, SEQUENCE = 2**61 + 1, 12_345

_TEXT = st.one_of(st.none(), st.binary(max_size=300))
_HEADERS = st.lists(st.tuples(st.text(max_size=5), _TEXT), max_size=2).map(tuple)
# Of records without a timestamp (-1), and of clients whose clocks are anywhere.
_TIMES = st.one_of(st.just(-1), st.integers(0, 2**62), st.integers(1_700_000_000_000, 1_700_000_001_000))
_RECORDS = st.tuples(_TIMES, _TEXT, _TEXT, _HEADERS)
_LOGS = st.lists(st.lists(_RECORDS, min_size=1, max_size=70), min_size=2, max_size=6)


def log_of(batches: list[list[tuple[Any, ...]]], base: int, codec: int) -> list[bytes]:
    found, offset = [], base
    for records in batches:
        found.append(v2_batch([Given(offset + at, *record) for at, record in enumerate(records)], codec=codec))
        offset += len(records)
    return found


def records_of(batches: list[bytes]) -> list[Record]:
    return [
        record
        for batch in batches
        for header, data in iter_batches(memoryview(batch))
        for record in read_records(header, data)
    ]


def put_together(batches: list[bytes]) -> bytes:
    return b"".join(merged([memoryview(batch) for batch in batches], producer_id=PID, sequence=SEQUENCE))


@given(_LOGS, st.integers(0, 2**40), st.integers(0, 4))
def test_every_record_is_as_it_was(given_log, base, codec):
    batches = log_of(given_log, base, codec)
    one = put_together(batches)
    header = read_batch_header(one)
    kept = [read_batch_header(batch) for batch in batches]
    assert crc_is_valid(memoryview(one), header)
    assert len(one) == header.size
    assert header.count == header.last_offset_delta + 1 == sum(found.count for found in kept)
    assert header.max_timestamp == max(found.max_timestamp for found in kept)
    assert (header.base_offset, header.partition_leader_epoch, header.attributes) == (0, -1, codec)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (PID, 0, SEQUENCE)
    found = [record._replace(offset=base + record.offset) for record in records_of([one])]
    assert found == records_of(batches)


def test_of_transactions_and_of_cleaned_logs_only_the_records_are_taken():
    batches = [v2_batch([Given(offset, 5, b"k", b"v")]) for offset in (0, 1)]
    marked = [bytearray(batch) for batch in batches]
    for batch in marked:
        batch[22] |= TRANSACTIONAL | DELETE_HORIZON
    assert put_together([bytes(batch) for batch in marked]) == put_together(batches)


def of_attributes(bits: int) -> bytes:
    batch = bytearray(v2_batch([Given(1, 5, b"k", b"v")]))
    batch[22] |= bits
    return bytes(batch)


@pytest.mark.parametrize(
    "other",
    [
        of_attributes(CONTROL),
        of_attributes(LOG_APPEND_TIME),
        v2_batch([Given(1, 5, b"k", b"v")], codec=4),
        v2_batch([Given(1, 5, b"k", b"v"), Given(3, 5, b"k", b"v")]),  # a gap inside
        v2_batch([Given(2, 5, b"k", b"v")], base=1),  # and one before the first record
        make_batch(1, 1),  # these are no records at all
        make_batch(1, 1, payload=b""),
        make_batch(1, 1, payload=b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"),
        make_batch(1, 1, payload=b"\x01"),  # of a length below 0
        v2_batch([Given(1, 5, b"k", b"v")])[:-1],
        v2_batch([Given(1, 5, b"k", b"v")]) + b"\0",
    ],
)
@pytest.mark.parametrize("comes_first", [False, True])
def test_what_cannot_be_put_together(other, comes_first):
    batches = [v2_batch([Given(0, 5, b"k", b"v")]), other]
    with pytest.raises(MalformedFrame):
        put_together(batches[::-1] if comes_first else batches)
