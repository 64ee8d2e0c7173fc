"""The null records that fill a partition up to the offset at which its mirror must start.

A null record has no key, no value and no headers: 7 to 9 bytes before compression, less than one after.
Compressed bodies are cached by count, so that a run of equal batches costs a header each.
"""

from __future__ import annotations

from functools import lru_cache

import cramjam

MAX_PADDING = 1 << 20
"""Most records of one padding batch (about 750 kB compressed, below the default max.message.bytes)."""

# A record: length, attributes 0, timestamp delta 0, offset delta (1 to 3 bytes), key -1, value -1, headers 0.
# All varints; zigzag doubles the offset delta, so n bytes hold deltas below 2^(7n-1).
_RANGES = ((0, 1 << 6, 1), (1 << 6, 1 << 13, 2), (1 << 13, MAX_PADDING, 3))
_OTHER_BYTES = 6  # of a record, without its offset delta
_DELTA_AT = 3
_LEVEL = 5  # zstd: the smallest result below level 19 on this data, at 20 ms per million records


def padding_records(count: int) -> bytes:
    """The zstd-compressed records section of a batch of `count` null records with offset deltas 0 .. count-1.

    Raises:
        ValueError: `count` is not 1 .. `MAX_PADDING`.
    """
    if not 1 <= count <= MAX_PADDING:
        raise ValueError(f"a padding batch holds 1 to {MAX_PADDING} records, not {count}")
    return _compressed(count)


@lru_cache(maxsize=8)
def _compressed(count: int) -> bytes:
    # The bytes of a record do not depend on how many follow it, so each body begins the longest one.
    return bytes(cramjam.zstd.compress(memoryview(_all_records())[: _size(count)], level=_LEVEL))


def _size(count: int) -> int:
    return sum((min(count, last) - first) * (_OTHER_BYTES + width) for first, last, width in _RANGES if count > first)


@lru_cache(maxsize=1)
def _all_records() -> bytes:
    return b"".join(_records(first, last, width) for first, last, width in _RANGES)


def _records(first: int, last: int, width: int) -> bytes:
    """Null records of the offset deltas first .. last-1, each of whose varints takes `width` bytes."""
    record_bytes = _OTHER_BYTES - 1 + width
    record = bytes((record_bytes << 1, 0, 0)) + bytes(width) + bytes((1, 1, 0))
    block = bytearray(record * (last - first))
    for group in range(width):
        block[_DELTA_AT + group :: len(record)] = _delta_bytes(group, group < width - 1, last)[first:]
    return bytes(block)


def _delta_bytes(group: int, more: bool, count: int) -> bytes:
    """Byte number `group` of the varint of each offset delta 0 .. count-1; `more`: another byte follows."""
    flag = 0x80 if more else 0
    if group == 0:
        period = bytes(value | flag for value in range(0, 0x80, 2))
    else:
        run = 1 << (7 * group - 1)
        period = b"".join(bytes((value | flag,)) * run for value in range(0x80))
    return (period * -(-count // len(period)))[:count]
