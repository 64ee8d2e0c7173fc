"""One record as a v2 batch of its own, for the topics that lockgate keeps for itself. Not for the hot path.

Layout: https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c

from protocol.varints import varint

_PREFIX = Struct(">qiibI")  # base offset, length, leader epoch, magic, CRC
_CHECKED = Struct(">hiqqqhii")  # attributes, last offset delta, timestamps, producer, count
_LENGTH_BASE = 12


def encode_record_batch(key: bytes | None, value: bytes | None, timestamp_ms: int) -> bytes:
    """A batch with one record, uncompressed, of no producer id."""
    body = b"".join((b"\x00", varint(0), varint(0), _sized(key), _sized(value), varint(0)))
    record = varint(len(body)) + body
    checked = _CHECKED.pack(0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1) + record
    length = _PREFIX.size - _LENGTH_BASE + len(checked)
    return _PREFIX.pack(0, length, -1, 2, crc32c(checked)) + checked


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data
