"""Ids of schemas written anew: nothing else of a batch changes."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.batch.header import CONTROL, crc_is_valid, iter_batches, read_batch_header
from protocol.batch.record_reader import Record, read_records
from protocol.batch.schema_ids import SchemaIdPlaces, sampled_ids, translated
from protocol.errors import MalformedFrame, ProtocolError
from tests.support.mirror.source_log import Given, v2_batch


def framed(schema_id: int, rest: bytes = b"x") -> bytes:
    return b"\0" + pack(">i", schema_id) + rest


IDS = {7: 1_000, 9: 9, 2**31 - 1: 7}
_KNOWN = st.sampled_from([*IDS, 8, 0])
_PLAIN = st.one_of(st.none(), st.binary(max_size=40))
_LONG_FRAMED = st.builds(lambda schema_id: b"\0" + pack(">q", schema_id) + b"x", _KNOWN)
_FRAMED = st.one_of(st.builds(framed, _KNOWN, st.binary(max_size=20)), _LONG_FRAMED)
_FIELD = st.one_of(_PLAIN, _FRAMED)
_NAMES = st.sampled_from(["__value_schema_id", "__key_schema_id", "apicurio.value.contentId", "other"])
_LONG = st.builds(lambda schema_id: pack(">q", schema_id), _KNOWN)
_HEADERS = st.lists(st.tuples(_NAMES, st.one_of(_FIELD, _LONG)), max_size=3).map(tuple)
_RECORDS = st.lists(st.tuples(st.integers(0, 2**60), _FIELD, _FIELD, _HEADERS), min_size=1, max_size=30)


def batch_of(records: list[tuple[Any, ...]], codec: int = 0, base: int = 100) -> bytes:
    return v2_batch([Given(base + at, *record) for at, record in enumerate(records)], codec=codec)


def one(key: bytes | None = None, value: bytes | None = None, **headers: bytes | None) -> bytes:
    named = tuple((name.replace("_dot_", "."), content) for name, content in headers.items())
    return batch_of([(1_000, key, value, named)])


def records_of(batch: bytes | memoryview) -> list[Record]:
    (found,) = iter_batches(memoryview(batch))
    return list(read_records(*found))


def expected(field: bytes | None) -> bytes | None:
    if field is None or len(field) < 5 or field[0] != 0:
        return field
    old = int.from_bytes(field[1:5], "big", signed=True)
    if old == 0 and len(field) >= 9:
        old = int.from_bytes(field[1:9], "big", signed=True)
        return b"\0" + pack(">q", IDS.get(old, old)) + field[9:]
    return b"\0" + pack(">i", IDS.get(old, old)) + field[5:]


def expected_header(name: str, content: bytes | None) -> bytes | None:
    if name.startswith("__") and content is not None:
        return expected(content)
    if name.startswith("apicurio") and content is not None and len(content) == 8:
        old = int.from_bytes(content, "big", signed=True)
        return pack(">q", IDS.get(old, old))
    return content


@given(_RECORDS, st.integers(0, 4))
def test_ids_are_written_anew_and_nothing_else(records, codec):
    old = batch_of(records, codec)
    made = translated(memoryview(old), IDS)
    wanted = [
        record._replace(
            key=expected(record.key),
            value=expected(record.value),
            headers=tuple((name, expected_header(name, content)) for name, content in record.headers),
        )
        for record in records_of(old)
    ]
    assert records_of(made.batch) == wanted
    before, after = read_batch_header(old), read_batch_header(made.batch)
    assert after._replace(length=0, crc=0) == before._replace(length=0, crc=0)
    assert crc_is_valid(memoryview(made.batch), after)
    assert after.size == len(made.batch)
    if not made.count:
        assert made.batch == old


@given(_RECORDS, st.integers(0, 4))
def test_back_again(records, codec):
    """With a map that is one to one: but for what the codec makes of it, the batch is the old one."""
    there, back = {7: 1_007, 9: 1_009, 2**31 - 1: 1_008}, {1_007: 7, 1_009: 9, 1_008: 2**31 - 1}
    old = batch_of(records, codec)
    again = translated(memoryview(translated(memoryview(old), there).batch), back)
    assert records_of(again.batch) == records_of(old)
    if not codec:
        assert bytes(again.batch) == old


def test_what_is_not_in_the_map_is_told():
    batch = batch_of([(1, None, framed(7), ()), (2, framed(8), framed(12), ()), (3, None, b"\0\0", ())])
    made = translated(memoryview(batch), IDS)
    assert (made.count, made.unknown) == (1, frozenset({8, 12}))
    same = translated(memoryview(one(value=framed(9))), IDS)
    assert (same.count, same.unknown) == (0, frozenset())
    assert isinstance(same.batch, memoryview)


def test_places():
    """A key that is a number is left alone where keys have no schemas."""
    batch = memoryview(one(key=framed(7, b"\0\0\0"), value=framed(7), __value_schema_id=framed(7, b"")))
    for places, wanted in (
        (SchemaIdPlaces(), (1_000, 1_000, 1_000)),
        (SchemaIdPlaces(key=False), (7, 1_000, 1_000)),
        (SchemaIdPlaces(key=False, headers=False), (7, 1_000, 7)),
        (SchemaIdPlaces(value=False), (1_000, 7, 1_000)),
    ):
        (record,) = records_of(translated(batch, IDS, places).batch)
        header = record.headers[0][1]
        assert record.key is not None and record.value is not None and header is not None  # noqa: PT018
        found = tuple(int.from_bytes(field[1:5], "big") for field in (record.key, record.value, header))
        assert found == wanted
        assert sampled_ids(batch, places) == {7}


def test_what_has_no_ids():
    control = bytearray(one(value=framed(7)))
    control[22] |= CONTROL
    assert translated(memoryview(bytes(control)), IDS).count == 0
    assert sampled_ids(memoryview(bytes(control))) == frozenset()
    long = memoryview(one(apicurio_dot_value_dot_contentId=pack(">q", 2**40)))
    assert translated(long, IDS).unknown == frozenset()


@pytest.mark.parametrize("codec", range(5))
def test_samples_are_of_the_first_record(codec):
    batch = batch_of([(1, framed(9), framed(7), ()), (2, None, framed(8), ())], codec)
    assert sampled_ids(memoryview(batch)) == {7, 9}


def test_large_compressed_batches_are_not_sampled(monkeypatch):
    batch = memoryview(batch_of([(1, None, framed(7), ())], codec=4))
    monkeypatch.setattr("protocol.batch.schema_ids.SAMPLED_BYTES", 3)
    assert sampled_ids(batch) == frozenset()
    assert sampled_ids(memoryview(one(value=framed(7)))) == {7}


@given(st.binary(max_size=120), st.integers(0, 60))
def test_other_bytes(noise, cut):
    batch = one(key=framed(9), value=framed(7))
    for broken in (batch[: len(batch) - 1 - cut % len(batch)], batch[:61] + noise, noise):
        try:
            translated(memoryview(broken), IDS)
            sampled_ids(memoryview(broken))
        except ProtocolError:
            continue


def test_lengths_that_lie():
    batch = bytearray(one(value=framed(7)))
    batch[61] = 0xFE  # a record that is longer than the batch
    with pytest.raises(MalformedFrame, match="a record that is longer than the batch"):
        translated(memoryview(bytes(batch)), IDS)
