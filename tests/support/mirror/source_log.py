"""Record sets as a source broker would return them, of every format, with the records a consumer would see in them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from protocol.batch.compression import compress
from protocol.batch.header import HEADER_BYTES, iter_batches, read_batch_header
from protocol.batch.record_reader import Record, read_records

APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
XERIAL = memoryview(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
ABORT, COMMIT = 0, 1


class Given(NamedTuple):
    """A record as a producer gives it, with the offset that the log gave it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def v2_batch(
    records: Sequence[Given],
    *,
    base: int | None = None,
    last: int | None = None,
    codec: int = 0,
    attributes: int = 0,
    producer_id: int = -1,
    append_time: int | None = None,
    epoch: int = 5,
) -> bytes:
    """A batch by kafka-python's builder, compressed here; `base` and `last` offset may lie outside of the records'."""
    base = records[0].offset if base is None else base
    last = records[-1].offset if last is None else last
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=bool(attributes & TRANSACTIONAL),
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        batch_size=1 << 30,
    )
    for record in records:
        given = record.offset - base
        builder.append(
            given, timestamp=record.timestamp, key=record.key, value=record.value, headers=list(record.headers)
        )
    plain = bytes(builder.build())
    body = compress(codec, plain[HEADER_BYTES:], XERIAL) if codec else plain[HEADER_BYTES:]
    batch = bytearray(plain[:HEADER_BYTES] + body)
    struct.pack_into(">qii", batch, 0, base, len(batch) - 12, epoch)
    bits = attributes | codec | (APPEND_TIME if append_time is not None else 0)
    struct.pack_into(">hi", batch, 21, bits, last - base)
    if append_time is not None:
        struct.pack_into(">q", batch, 35, append_time)
    return _sealed(batch)


def empty_batch(base: int, last: int, *, attributes: int = 0, producer_id: int = -1) -> bytes:
    """What compaction leaves of a batch whose last sequence must be kept."""
    batch = bytearray(
        v2_batch([Given(0, 0, None, None)], attributes=attributes, producer_id=producer_id)[:HEADER_BYTES]
    )
    struct.pack_into(">qi", batch, 0, base, len(batch) - 12)
    struct.pack_into(">i", batch, 23, last - base)
    struct.pack_into(">i", batch, 57, 0)
    return _sealed(batch)


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    """A transaction marker."""
    record = Given(offset, 1, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return v2_batch([record], attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id)


def _sealed(batch: bytearray) -> bytes:
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


def message(magic: int, given: Given, attributes: int = 0) -> bytes:
    """One message of format v0 or v1. Its timestamp is left out in v0."""
    content = struct.pack(">bb", magic, attributes)
    if magic:
        content += struct.pack(">q", given.timestamp)
    for field in (given.key, given.value):
        content += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    content = struct.pack(">I", zlib.crc32(content)) + content
    return struct.pack(">qi", given.offset, len(content)) + content


def wrapper(magic: int, records: Sequence[Given], codec: int, append_time: int | None = None) -> bytes:
    """A compressed message set: inner offsets absolute in v0, relative to the first one in v1."""
    first = records[0].offset if magic else 0
    inner = b"".join(message(magic, record._replace(offset=record.offset - first)) for record in records)
    value = compress(codec, inner, XERIAL)
    if magic == 0 and codec == 3:
        value = value[:6] + bytes([value[6] ^ 0x5A]) + value[7:]  # their header checksum was wrong (KAFKA-3160)
    timestamp = max(record.timestamp for record in records) if append_time is None else append_time
    attributes = codec | (APPEND_TIME if append_time is not None else 0)
    return message(magic, Given(records[-1].offset, timestamp, None, value), attributes)


def records_in(batch: bytes) -> list[Record]:
    """The records of one batch of format v2, by this project's reader."""
    view = memoryview(batch)
    return list(read_records(read_batch_header(view), view))


def batches_in(records: bytes) -> int:
    """How many batches of format v2 a record set has."""
    return sum(1 for _ in iter_batches(memoryview(records)))
