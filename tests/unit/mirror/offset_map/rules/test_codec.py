"""Records of the map topic, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mirror.offset_map.rules.codec import (
    MARK_BASE,
    Chunk,
    MapFormatError,
    MapKey,
    Mark,
    PartitionKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    period_number,
)

int64 = st.integers(0, 2**63 - 1)
keys = st.builds(
    MapKey,
    st.builds(PartitionKey, st.integers(0, 2**32 - 1), st.integers(0, 4095), st.integers(0, 2**31 - 1)),
    int64,
    st.integers(0, 2**64 - 1),
)


@given(keys)
def test_keys(key: MapKey) -> None:
    assert decode_key(encode_key(key)) == key


@given(keys, st.integers(1, 2**31 - 1), st.integers(0, 2**32 - 1), st.lists(st.tuples(int64, int64), max_size=9))
def test_chunks(key: MapKey, records: int, crc: int, breakpoints: list[tuple[int, int]]) -> None:
    chunk = Chunk.of(records, crc, breakpoints)
    assert decode_value(key, encode_value(chunk)) == chunk


@given(keys, int64, int64)
def test_marks(key: MapKey, decided_to: int, seen: int) -> None:
    key = key._replace(base=MARK_BASE, writer=0)
    assert decode_value(decode_key(encode_key(key)), encode_value(Mark(decided_to, seen))) == Mark(decided_to, seen)


def test_the_bytes_do_not_change() -> None:
    key = MapKey(PartitionKey(1, period_number(1, reverse=True), 2), 5, 6)
    assert encode_key(key).hex() == "010000000100030000000200000000000000050000000000000006"
    chunk = Chunk.of(3, 9, [(10, 5), (20, 7)])
    assert encode_value(chunk).hex() == (
        "01" "00000003" "00000009" "00000002"
        "000000000000000a" "0000000000000014" "0000000000000005" "0000000000000007"
    )  # fmt: skip


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x01", b"\x01" + b"\0" * 27])
def test_what_is_no_key(data: bytes) -> None:
    with pytest.raises(MapFormatError):
        decode_key(data)


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x01\0\0\0\1\0\0\0\1", b"\x01\0\0\0\0\0\0\0\0\0\0\0\1\0"])
def test_what_is_no_chunk(data: bytes) -> None:
    with pytest.raises(MapFormatError):
        decode_value(MapKey(PartitionKey(0, 0, 0), 0, 0), data)
