"""Primitive types: what is written is read back, what is cut off or claims too much is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import writers

from protocol import wire
from protocol.errors import IncompleteFrame, MalformedFrame
from tests.unit.protocol.oracle import written

TEXT = st.one_of(st.none(), st.text(max_size=300))


@given(st.integers(0, 2**32 - 1))
def test_uvarint(value: int) -> None:
    data = wire.uvarint(value)
    assert wire.read_uvarint(data, 0) == (value, len(data))
    if value < 2**31:  # kio has no larger ones
        assert data == written(writers.write_unsigned_varint, value)


def test_a_varint_that_never_ends_is_refused_at_once() -> None:
    with pytest.raises(MalformedFrame, match="varint"):
        wire.read_uvarint(b"\xff" * 5_000_000, 0)


@given(TEXT, st.booleans())
def test_strings(value: str | None, flexible: bool) -> None:
    data = wire.string(value, flexible)
    assert wire.string_reader(flexible)(b"x" + data + b"y", 1) == (value, 1 + len(data))
    write = writers.write_nullable_compact_string if flexible else writers.write_nullable_legacy_string
    assert data == written(write, value)
    guarded = wire.parser(wire.string_reader(flexible))
    for end in range(len(data)):
        with pytest.raises(IncompleteFrame):
            guarded(data[:end], 0)


def test_a_classic_string_has_a_limit() -> None:
    assert wire.string("x" * 32767, flexible=False)[:2] == b"\x7f\xff"
    with pytest.raises(ValueError, match="too long"):
        wire.string("x" * 32768, flexible=False)


def test_a_string_of_negative_length_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        wire.read_string(b"\xff\xfe", 0)


@given(st.dictionaries(st.integers(0, 1000), st.binary(max_size=200), max_size=5))
def test_tags(tags: dict[int, bytes]) -> None:
    data = wire.uvarint(len(tags)) + b"".join(wire.uvarint(t) + wire.uvarint(len(d)) + d for t, d in tags.items())
    assert wire.skip_tags(b"x" + data + b"y", 1) == 1 + len(data)
    ranges, end = wire.read_tags(b"x" + data, 1)
    assert end == 1 + len(data)
    assert {tag: (b"x" + data)[slice(*bounds)] for tag, bounds in ranges.items()} == tags


@pytest.mark.parametrize("claimed", [2**31 - 1, -2, 3])
def test_an_array_larger_than_the_frame_is_refused(claimed: int) -> None:
    with pytest.raises(MalformedFrame, match=str(claimed)):
        wire.read_array_size(claimed.to_bytes(4, "big", signed=True) + b"xx", 0)


def test_a_compact_array_larger_than_the_frame_is_refused() -> None:
    with pytest.raises(MalformedFrame):
        wire.read_compact_array_size(wire.uvarint(2**32 - 1) + b"xx", 0)
    assert wire.read_compact_array_size(b"\x00", 0) == (-1, 1)
    assert wire.read_compact_array_size(b"\x02x", 0) == (1, 1)


@pytest.mark.parametrize("flexible", [False, True])
def test_bytes_ranges(flexible: bool) -> None:
    read = wire.bytes_reader(flexible)
    data = wire.bytes_size(3, flexible) + b"abc"
    start, end = read(data, 0)
    assert data[start:end] == b"abc"
    null = wire.bytes_size(-1, flexible)
    assert read(null, 0) == (len(null), len(null))
    with pytest.raises(IncompleteFrame):
        read(data[:-1], 0)


def test_the_number_of_tags_is_bounded() -> None:
    tags = b"".join(bytes((tag, 0)) for tag in range(wire.MAX_TAGS + 1))
    assert wire.skip_tags(bytes((wire.MAX_TAGS,)) + tags, 0) == len(tags) - 1
    for read in (wire.skip_tags, wire.read_tags):
        with pytest.raises(MalformedFrame, match="tagged"):
            read(bytes((wire.MAX_TAGS + 1,)) + tags, 0)
