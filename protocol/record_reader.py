"""Record batches decoded record by record: the slow path, for whoever must see keys and values.

Layout: https://kafka.apache.org/documentation/#record. Lengths are zigzag varints; -1 is null.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import cramjam

from protocol.errors import MalformedFrame
from protocol.records import HEADER_BYTES, BatchHeader

_XERIAL = b"\x82SNAPPY\x00"  # how Java clients frame snappy: this, two versions, then blocks with their sizes
_XERIAL_HEADER = 16
_BLOCK_SIZE = Struct(">i")


class Record(NamedTuple):
    """One record. `timestamp_ms` is what a consumer shows: with LogAppendTime the batch's, otherwise its own."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_records(header: BatchHeader, batch: memoryview) -> Iterator[Record]:
    """The records of one batch of format v2.

    Raises:
        MalformedFrame: records that are not what the header says, or cannot be decompressed.
    """
    body = decompress(header.codec, batch[HEADER_BYTES:])
    append_time = header.max_timestamp if header.is_log_append_time else None
    at = 0
    try:
        for _ in range(header.count):
            record, at = _read_record(body, at, header.base_offset, header.base_timestamp, append_time)
            yield record
    except (IndexError, UnicodeDecodeError) as exc:
        raise _malformed(header, str(exc)) from None
    if at != len(body):
        raise _malformed(header, f"{len(body) - at} bytes too many")


def decompress(codec: int, body: memoryview) -> bytes:
    """The records section of a batch, decompressed.

    Args:
        codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.

    Raises:
        MalformedFrame: an unknown codec, or data that is not of it.
    """
    try:
        match codec:
            case 0:
                return bytes(body)
            case 1:
                return gzip.decompress(body)
            case 2:
                return _unsnappy(body)
            case 3:
                return bytes(cramjam.lz4.decompress(body))
            case 4:
                return bytes(cramjam.zstd.decompress(body))
    except (cramjam.DecompressionError, zlib.error, OSError, EOFError) as exc:
        raise MalformedFrame(f"records that are not of codec {codec}: {exc}") from None
    raise MalformedFrame(f"records of unknown codec {codec}")


def _unsnappy(body: memoryview) -> bytes:
    if body[: len(_XERIAL)] != _XERIAL:
        return bytes(cramjam.snappy.decompress_raw(body))
    blocks = []
    at = _XERIAL_HEADER
    while at < len(body):
        if len(body) - at < _BLOCK_SIZE.size:
            raise MalformedFrame("records end inside a snappy block")
        (size,) = _BLOCK_SIZE.unpack_from(body, at)
        at += _BLOCK_SIZE.size
        if not 0 <= size <= len(body) - at:
            raise MalformedFrame("a snappy block that is longer than the records")
        blocks.append(bytes(cramjam.snappy.decompress_raw(body[at : at + size])))
        at += size
    return b"".join(blocks)


def _read_record(
    body: bytes, at: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> tuple[Record, int]:
    size, at = _varint(body, at)
    end = at + size
    if size < 0 or end > len(body):
        raise IndexError("a record that is longer than the batch")
    timestamp_delta, at = _varint(body, at + 1)  # after the attributes, which have no meaning
    offset_delta, at = _varint(body, at)
    key, at = _bytes(body, at, end)
    value, at = _bytes(body, at, end)
    count, at = _varint(body, at)
    headers = []
    for _ in range(count):
        name, at = _bytes(body, at, end)
        content, at = _bytes(body, at, end)
        headers.append(((name or b"").decode(), content))
    if at != end:
        raise IndexError("a record of another length than it says")
    timestamp_ms = base_timestamp + timestamp_delta if append_time is None else append_time
    return Record(base_offset + offset_delta, timestamp_ms, key, value, tuple(headers)), end


def _bytes(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = _varint(body, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise IndexError("a field that is longer than its record")
    return body[at : at + size], at + size


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of up to 64 bits. Raises IndexError past the end."""
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
        if shift > 63:
            raise IndexError("a varint of more than ten bytes")


def _malformed(header: BatchHeader, why: str) -> MalformedFrame:
    return MalformedFrame(f"the batch at offset {header.base_offset}: {why}")
