"""Records with key and value as one uncompressed v2 batch, for the topics that lockgate keeps for itself.

Layout: https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from crc32c import crc32c

from protocol.varints import varint

_PREFIX = Struct(">qiibI")  # base offset, length, leader epoch, magic, CRC
_CHECKED = Struct(">hiqqqhii")  # attributes, last offset delta, timestamps, producer id and epoch, sequence, count
_LENGTH_BASE = 12
_NULL = varint(-1)
_NO_HEADERS = varint(0)


def keyed_batch(records: Sequence[tuple[bytes, bytes | None]], timestamp_ms: int) -> bytes:
    """A batch of (key, value) records, all with the same timestamp; a null value is a tombstone.

    Raises:
        ValueError: no record.
    """
    if not records:
        raise ValueError("a batch without records")
    out = bytearray()
    for index, (key, value) in enumerate(records):
        body = b"\0\0" + varint(index) + varint(len(key)) + key
        body += (_NULL if value is None else varint(len(value)) + value) + _NO_HEADERS
        out += varint(len(body)) + body
    count = len(records)
    head = _CHECKED.pack(0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    length = _PREFIX.size + _CHECKED.size - _LENGTH_BASE + len(out)
    return _PREFIX.pack(0, length, -1, 2, crc32c(out, crc32c(head))) + head + out
