"""Records with key and value as one v2 batch, for the topics that lockgate keeps for itself.

Layout: https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

import cramjam
from crc32c import crc32c

from protocol.batch.header import TRANSACTIONAL
from protocol.batch.stamp import Stamp
from protocol.batch.varints import varint

_PREFIX = Struct(">qiibI")  # base offset, length, leader epoch, magic, CRC
_CHECKED = Struct(">hiqqqhii")  # attributes, last offset delta, timestamps, producer id and epoch, sequence, count
_LENGTH_BASE = 12
_NULL = varint(-1)
_NO_HEADERS = varint(0)
_ZSTD: Final = 4
_WORTH_COMPRESSING: Final = 4096  # bytes

KeyValue: TypeAlias = tuple[bytes, bytes | None]
"""A null value is a tombstone."""


class KeyedRecord(NamedTuple):
    """A record of a transaction. A value of None is a tombstone; `headers` are names, their values are empty."""

    key: bytes
    value: bytes | None
    headers: tuple[bytes, ...] = ()


def keyed_batch(records: Sequence[KeyValue], timestamp_ms: int) -> bytes:
    """An uncompressed batch of records, all with the same timestamp, of a producer without an id.

    Raises:
        ValueError: no record.
    """
    body = _body(KeyedRecord(key, value) for key, value in records)
    return _batch(body, 0, len(records), timestamp_ms, Stamp(-1, -1, -1))


def transactional_batch(records: Sequence[KeyedRecord], timestamp_ms: int, stamp: Stamp) -> bytes:
    """A batch of a transaction; one of more than 4 KB is compressed with zstd.

    Raises:
        ValueError: no record.
    """
    body, codec = _body(records), 0
    if len(body) > _WORTH_COMPRESSING:
        body, codec = bytes(cramjam.zstd.compress(body)), _ZSTD
    return _batch(body, TRANSACTIONAL | codec, len(records), timestamp_ms, stamp)


def _batch(body: bytes, attributes: int, count: int, timestamp_ms: int, stamp: Stamp) -> bytes:
    if not count:
        raise ValueError("a batch without records")
    head = _CHECKED.pack(attributes, count - 1, timestamp_ms, timestamp_ms, *stamp, count)
    length = _PREFIX.size + _CHECKED.size - _LENGTH_BASE + len(body)
    return _PREFIX.pack(0, length, -1, 2, crc32c(body, crc32c(head))) + head + body


def _body(records: Iterable[KeyedRecord]) -> bytes:
    out = bytearray()
    for index, (key, value, headers) in enumerate(records):
        body = b"\0\0" + varint(index) + varint(len(key)) + key
        body += _NULL if value is None else varint(len(value)) + value
        body += varint(len(headers)) if headers else _NO_HEADERS
        for name in headers:
            body += varint(len(name)) + name + varint(0)
        out += varint(len(body)) + body
    return bytes(out)
