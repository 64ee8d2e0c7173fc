"""Primitive types of the Kafka protocol, read from and written to buffers by position.

Readers take `(buf, at)` and return `(value, next)`. They raise `IncompleteFrame` where the buffer ends too
early and `MalformedFrame` where it cannot be right; a public parser built on them carries `@parser`, which
translates the errors of `struct` and of indexing. Nothing is allocated from a length that the peer claims:
every length is first compared with what is there.

Types: https://kafka.apache.org/protocol#protocol_types; tagged fields: KIP-482.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from struct import Struct
from struct import error as StructError
from typing import ParamSpec, TypeAlias, TypeVar

from protocol.errors import IncompleteFrame, MalformedFrame

Buffer: TypeAlias = bytes | bytearray | memoryview

INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")

MAX_TAGS = 16
"""Tagged fields in one section: no message has ten. Reading them takes time that a peer shall not choose."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def parser(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a parser raise only `MalformedFrame` (and its subclasses) on bad input."""

    @wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except (StructError, IndexError) as exc:
            raise IncompleteFrame("the frame ends inside a field") from exc
        except UnicodeDecodeError as exc:
            raise MalformedFrame("a string is not UTF-8") from exc

    return guarded


def read_uvarint(buf: Buffer, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits."""
    byte = buf[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        at += 1
        byte = buf[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise MalformedFrame("a varint is longer than 5 bytes")


def _slice(buf: Buffer, at: int, size: int) -> int:
    end = at + size
    if end > len(buf):
        raise IncompleteFrame(f"a field of {size} bytes does not fit in the frame")
    return end


def read_string(buf: Buffer, at: int) -> tuple[str | None, int]:
    """Read a (nullable) STRING: int16 length, -1 is null."""
    (size,) = INT16.unpack_from(buf, at)
    at += 2
    if size < 0:
        if size == -1:
            return None, at
        raise MalformedFrame(f"a string of {size} bytes")
    end = _slice(buf, at, size)
    return str(buf[at:end], "utf-8"), end


def read_compact_string(buf: Buffer, at: int) -> tuple[str | None, int]:
    """Read a (nullable) COMPACT_STRING: varint length + 1, 0 is null."""
    size = buf[at]
    if not size:
        return None, at + 1
    if size < 0x80:  # nearly always, and a call less
        at += 1
    else:
        size, at = read_uvarint(buf, at)
    end = at + size - 1
    if end > len(buf):
        raise IncompleteFrame(f"a field of {size - 1} bytes does not fit in the frame")
    return str(buf[at:end], "utf-8"), end


def read_bytes_range(buf: Buffer, at: int) -> tuple[int, int]:
    """Read the range (start, end) of (nullable) BYTES or RECORDS; null is an empty range."""
    (size,) = INT32.unpack_from(buf, at)
    at += 4
    if size <= 0:
        if size >= -1:
            return at, at
        raise MalformedFrame(f"a byte field of {size} bytes")
    return at, _slice(buf, at, size)


def read_compact_bytes_range(buf: Buffer, at: int) -> tuple[int, int]:
    """Read the range (start, end) of (nullable) COMPACT_BYTES or COMPACT_RECORDS; null is an empty range."""
    size, at = read_uvarint(buf, at)
    if size <= 1:
        return at, at
    return at, _slice(buf, at, size - 1)


def read_array_size(buf: Buffer, at: int) -> tuple[int, int]:
    """Read the element count of an ARRAY; -1 for null. More elements than bytes left is malformed."""
    (count,) = INT32.unpack_from(buf, at)
    at += 4
    if count < -1 or count > len(buf) - at:
        raise MalformedFrame(f"an array of {count} elements in {len(buf) - at} bytes")
    return count, at


def read_compact_array_size(buf: Buffer, at: int) -> tuple[int, int]:
    """Read the element count of a COMPACT_ARRAY; -1 for null. More elements than bytes left is malformed."""
    count = buf[at]
    if count < 0x80:
        at += 1
    else:
        count, at = read_uvarint(buf, at)
    if count - 1 > len(buf) - at:
        raise MalformedFrame(f"an array of {count - 1} elements in {len(buf) - at} bytes")
    return count - 1, at


def _tag_count(buf: Buffer, at: int) -> tuple[int, int]:
    count, at = read_uvarint(buf, at)
    if count > MAX_TAGS:
        raise MalformedFrame(f"{count} tagged fields")
    return count, at


def skip_tags(buf: Buffer, at: int) -> int:
    """Step over a tagged-fields section."""
    if not buf[at]:
        return at + 1
    count, at = _tag_count(buf, at)
    for _ in range(count):
        _, at = read_uvarint(buf, at)
        size, at = read_uvarint(buf, at)
        at = _slice(buf, at, size)
    return at


def read_tags(buf: Buffer, at: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Read a tagged-fields section as {tag: (start, end)}."""
    count, at = _tag_count(buf, at)
    tags: dict[int, tuple[int, int]] = {}
    for _ in range(count):
        tag, at = read_uvarint(buf, at)
        size, at = read_uvarint(buf, at)
        end = _slice(buf, at, size)
        tags[tag] = (at, end)
        at = end
    return tags, at


StringReader: TypeAlias = Callable[[Buffer, int], tuple[str | None, int]]
RangeReader: TypeAlias = Callable[[Buffer, int], tuple[int, int]]


def string_reader(flexible: bool) -> StringReader:
    """The reader for strings of a flexible or a classic message."""
    return read_compact_string if flexible else read_string


def bytes_reader(flexible: bool) -> RangeReader:
    """The reader for byte and record fields of a flexible or a classic message."""
    return read_compact_bytes_range if flexible else read_bytes_range


def array_reader(flexible: bool) -> RangeReader:
    """The reader for array sizes of a flexible or a classic message."""
    return read_compact_array_size if flexible else read_array_size


def uvarint(value: int) -> bytes:
    """Write an unsigned varint; `value` is 0 to 2^32-1."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(value: str | None, flexible: bool) -> bytes:
    """Write a (nullable) string.

    Raises:
        ValueError: longer than a classic string can be (32,767 bytes).
    """
    if value is None:
        return b"\x00" if flexible else b"\xff\xff"
    data = value.encode()
    if flexible:
        return uvarint(len(data) + 1) + data
    if len(data) > 0x7FFF:
        raise ValueError(f"a string of {len(data)} bytes is too long for the protocol")
    return INT16.pack(len(data)) + data


def array_size(count: int, flexible: bool) -> bytes:
    """Write the size of an array of `count` elements; -1 is null."""
    return uvarint(count + 1) if flexible else INT32.pack(count)


def bytes_size(size: int, flexible: bool) -> bytes:
    """Write the size that goes before `size` bytes of a byte or record field; -1 is null."""
    return uvarint(size + 1) if flexible else INT32.pack(size)
