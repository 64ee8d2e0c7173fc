"""Decodes record batches record by record: the slow path, for code that needs keys and values.

Layout: https://kafka.apache.org/documentation/#record. Lengths are zigzag varints; -1 is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from protocol.batch.compression import MAX_INFLATED, decompress
from protocol.batch.header import HEADER_BYTES, BatchHeader
from protocol.batch.varints import read_varint
from protocol.errors import MalformedFrame


class Record(NamedTuple):
    """One record. `timestamp_ms` as a consumer shows it: with LogAppendTime the batch's, otherwise the record's own."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_records(header: BatchHeader, batch: memoryview, limit: int = MAX_INFLATED) -> Iterator[Record]:
    """The records of one batch of format v2.

    Args:
        limit: largest decompressed size of its records, in bytes.

    Raises:
        MalformedFrame: the records are not as the header says, cannot be decompressed, or exceed the limit.
    """
    body = bytes(decompress(header.codec, batch[HEADER_BYTES:], limit))
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


def _read_record(
    body: bytes, at: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> tuple[Record, int]:
    size, at = read_varint(body, at)
    end = at + size
    if size < 0 or end > len(body):
        raise IndexError("a record that is longer than the batch")
    timestamp_delta, at = read_varint(body, at + 1)  # after the attributes, which have no meaning
    offset_delta, at = read_varint(body, at)
    key, at = _bytes(body, at, end)
    value, at = _bytes(body, at, end)
    count, at = read_varint(body, at)
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
    size, at = read_varint(body, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise IndexError("a field that is longer than its record")
    return body[at : at + size], at + size


def _malformed(header: BatchHeader, why: str) -> MalformedFrame:
    return MalformedFrame(f"the batch at offset {header.base_offset}: {why}")
