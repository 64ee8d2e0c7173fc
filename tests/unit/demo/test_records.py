"""A record names itself, and its digest sees everything a consumer sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.records import VALUE_BYTES, RecordId, digest, headers_of, key_of, parse_value, value_of

names = st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True)


@given(names, st.integers(0, 10**9))
def test_a_value_is_one_kilobyte_and_says_who_wrote_it(producer: str, seq: int) -> None:
    value = value_of(producer, seq)
    assert len(value) == VALUE_BYTES
    assert parse_value(value) == RecordId(producer, seq)


@pytest.mark.parametrize("value", [None, b"", b"hello", b"one two three", b"one 12"])
def test_anything_else_is_refused(value: bytes | None) -> None:
    with pytest.raises(ValueError, match="not a record of the demo"):
        parse_value(value)


def test_the_digest_sees_every_field() -> None:
    key, value, headers, stamp = key_of(7), value_of("one", 7), headers_of("one", 7), (1, 1_700_000_000_000)
    variants = [
        digest(key, value, headers, stamp),
        digest(None, value, headers, stamp),
        digest(b"", value, headers, stamp),
        digest(key, None, headers, stamp),
        digest(key, value, headers[:1], stamp),
        digest(key, value, headers[::-1], stamp),
        digest(key, value, [("origin", None), headers[1]], stamp),
        digest(key, value, headers, (1, stamp[1] + 1)),
        digest(key, value, headers, (2, stamp[1])),
        digest(key + value[:1], value[1:], headers, stamp),
    ]
    assert len(set(variants)) == len(variants)
    assert digest(key, value, list(headers), stamp) == variants[0]
