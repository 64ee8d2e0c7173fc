"""Zigzag varints as records use them (https://protobuf.dev/programming-guides/encoding/#varints)."""

from __future__ import annotations

from typing import Final

from protocol.wire import Buffer

_MASK: Final = (1 << 64) - 1
_MAX_BITS: Final = 63


def read_varint(body: Buffer, at: int) -> tuple[int, int]:
    """The varint of up to 64 bits at `at`, and where it ends.

    Raises:
        IndexError: it goes beyond the end, or is longer than ten bytes.
    """
    byte = body[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = body[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
        if shift > _MAX_BITS:
            raise IndexError("a varint of more than ten bytes")


def varint(value: int) -> bytes:
    """The bytes of a number of up to 64 bits with its sign."""
    return _SMALL[value + _SMALL_FROM] if -_SMALL_FROM <= value < _SMALL_TO else _encoded(value)


def _encoded(value: int) -> bytes:
    left = ((value << 1) ^ (value >> 63)) & _MASK
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


# Most numbers in records are small: they are looked up.
_SMALL_FROM: Final = 64
_SMALL_TO: Final = 8192
_SMALL: Final = tuple(map(_encoded, range(-_SMALL_FROM, _SMALL_TO)))
