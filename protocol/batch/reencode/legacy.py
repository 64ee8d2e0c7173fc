"""Message sets of formats v0 and v1, turned into records of format v2.

Layout: https://kafka.apache.org/documentation/#messageset. A message is its own batch, unless it is a *wrapper*: then
its value is a compressed message set. A wrapper has the offset of its last inner message; inner offsets are absolute
in v0 and relative in v1 (KIP-31). v0 has no timestamps: its records get -1, which is how clients show them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from protocol.batch.compression import decompress, mended_lz4
from protocol.batch.header import CODEC_MASK, LOG_APPEND_TIME
from protocol.batch.reencode.record_set import RecordSet
from protocol.batch.varints import varint
from protocol.batch.work import EACH, Spend, unlimited
from protocol.errors import MalformedFrame

_LZ4, _ZSTD = 3, 4
_ENTRY: Final = Struct(">qi")  # offset, size of the message
_HEAD: Final = Struct(">Ibb")  # crc, magic, attributes
_TIMESTAMP: Final = Struct(">q")
_LENGTH: Final = Struct(">i")
_SMALLEST: Final = (14, 22)  # a message of v0 and of v1 with null key and null value
_NO_TIMESTAMP: Final = -1
_MAX_DELTA: Final = (1 << 31) - 1


class Message(NamedTuple):
    """One message. `offset` as written: relative for an inner message of v1."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None

    @property
    def codec(self) -> int:
        """Compression of the inner messages; 0 for a plain message."""
        return self.attributes & CODEC_MASK


def read_message(data: memoryview) -> Message:
    """The message in `data`, which begins with its offset and size.

    Raises:
        MalformedFrame: not a message.
    """
    offset, _ = _ENTRY.unpack_from(data)
    if len(data) < _ENTRY.size + _SMALLEST[0]:
        raise MalformedFrame(f"a message of {len(data)} bytes")
    crc, magic, attributes = _HEAD.unpack_from(data, _ENTRY.size)
    if magic not in (0, 1) or len(data) < _ENTRY.size + _SMALLEST[magic]:
        raise MalformedFrame(f"a message of magic {magic} and {len(data)} bytes")
    if zlib.crc32(data[_ENTRY.size + 4 :]) != crc:
        raise MalformedFrame("a message that fails its checksum")
    at = _ENTRY.size + _HEAD.size
    timestamp = _NO_TIMESTAMP
    if magic:
        (timestamp,) = _TIMESTAMP.unpack_from(data, at)
        at += _TIMESTAMP.size
    key, at = _field(data, at)
    value, at = _field(data, at)
    if at != len(data):
        raise MalformedFrame(f"a message with {len(data) - at} bytes too many")
    return Message(offset, magic, attributes, timestamp, key, value)


def _field(data: memoryview, at: int) -> tuple[memoryview | None, int]:
    if len(data) - at < _LENGTH.size:
        raise MalformedFrame("a message that ends inside a field")
    (size,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    if size < 0:
        return None, at
    if size > len(data) - at:
        raise MalformedFrame("a field that is longer than its message")
    return data[at : at + size], at + size


def unwrap(wrapper: Message, max_inflated: int, spend: Spend = unlimited) -> RecordSet:
    """The records inside a compressed message.

    Raises:
        MalformedFrame: they violate the format.
    """
    if wrapper.value is None or wrapper.codec >= _ZSTD:
        raise MalformedFrame(f"a compressed message with codec {wrapper.codec} or without a value")
    body = mended_lz4(wrapper.value) if wrapper.magic == 0 and wrapper.codec == _LZ4 else wrapper.value
    inner = memoryview(decompress(wrapper.codec, body, max_inflated, spend))
    last = max((_ENTRY.unpack_from(entry)[0] for entry in _entries(inner, spend)), default=-1)
    if last < 0:
        raise MalformedFrame("a compressed message without messages")
    shift = wrapper.offset - last if wrapper.magic else 0
    if shift < 0:
        raise MalformedFrame(f"a compressed message at offset {wrapper.offset} whose inner offsets reach {last}")
    appended = wrapper.magic == 1 and wrapper.attributes & LOG_APPEND_TIME
    gathered = Gathered(wrapper.timestamp if appended else None)
    for entry in _entries(inner, spend):
        message = read_message(entry)
        if message.codec or message.magic != wrapper.magic:
            raise MalformedFrame("a compressed message inside a compressed message, or one of another format")
        gathered.add(message, message.offset + shift)
    return gathered.records(wrapper.codec, wrapper.value)


def _entries(inner: memoryview, spend: Spend) -> Iterator[memoryview]:
    at = found = 0
    while at < len(inner):
        if not found % EACH:
            spend(EACH if found else 1)  # their number is only known at the end
        found += 1
        if len(inner) - at < _ENTRY.size:
            raise MalformedFrame("messages that end inside one")
        size = _ENTRY.unpack_from(inner, at)[1]
        end = at + _ENTRY.size + size
        if size < 0 or end > len(inner):
            raise MalformedFrame("messages that end inside one")
        yield inner[at:end]
        at = end


class Gathered:
    """Gathers messages into one record set. Args: `append_time` of all records, or None."""

    __slots__ = ("_append_time", "_base_offset", "_base_timestamp", "_last", "body", "count")

    def __init__(self, append_time: int | None = None) -> None:
        self._append_time = append_time
        self._base_offset = self._base_timestamp = self._last = -1
        self.body = bytearray()
        self.count = 0

    def fits(self, offset: int) -> bool:
        """False when the offset is too far from the batch's beginning, or not above its last offset."""
        return not self.count or self._last < offset <= self._base_offset + _MAX_DELTA

    def add(self, message: Message, offset: int) -> None:
        """Add a message at its source offset. Raises MalformedFrame if offsets do not ascend."""
        if offset < 0 or not self.fits(offset):
            raise MalformedFrame(f"a message at offset {offset} after one at {self._last}")
        if not self.count:
            self._base_offset, self._base_timestamp = offset, message.timestamp
        head = b"\0" + varint(message.timestamp - self._base_timestamp) + varint(offset - self._base_offset)
        key, value = message.key, message.value
        before_key = varint(-1 if key is None else len(key))
        before_value = varint(-1 if value is None else len(value))
        size = len(head) + len(before_key) + len(key or b"") + len(before_value) + len(value or b"") + 1
        out = self.body
        out += varint(size) + head + before_key
        out += key or b""
        out += before_value
        out += value or b""
        out += b"\0"  # no headers
        self._last = offset
        self.count += 1

    def records(self, codec: int = 0, like: memoryview = memoryview(b"")) -> RecordSet:  # noqa: B008 - immutable
        """The gathered records."""
        return RecordSet(
            body=self.body,
            count=self.count,
            base_offset=self._base_offset,
            base_timestamp=self._base_timestamp,
            append_time=self._append_time,
            codec=codec,
            like=like,
            next_offset=self._last + 1,
            leader_epoch=-1,
        )
