"""Record batches as clients write them: uncompressed v2, with keys, headers and the stamp of a producer.

Layout: https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from protocol.batch.header import TRANSACTIONAL
from protocol.batch.varints import varint

_PREFIX: Final = Struct(">qiibI")  # base offset, length, leader epoch, magic, CRC
_CHECKED: Final = Struct(
    ">hiqqqhii"
)  # attributes, last offset delta, timestamps, producer id and epoch, sequence, count
_LENGTH_BASE: Final = 12
_NULL: Final = varint(-1)

Header = tuple[str, bytes | None]


class Sent(NamedTuple):
    """A record as a client sends it."""

    key: bytes | None
    value: bytes
    headers: tuple[Header, ...] = ()


def record_body(records: Sequence[Sent]) -> bytes:
    """The records of a batch, all with the batch's timestamp."""
    out = bytearray()
    for index, record in enumerate(records):
        body = b"\0\0" + varint(index) + _field(record.key) + _field(record.value) + varint(len(record.headers))
        for name, content in record.headers:
            body += _field(name.encode()) + _field(content)
        out += varint(len(body)) + body
    return bytes(out)


def stamped_batch(
    body: bytes,
    count: int,
    timestamp_ms: int,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """A batch around what `record_body` made."""
    attributes = TRANSACTIONAL if transactional else 0
    head = _CHECKED.pack(attributes, count - 1, timestamp_ms, timestamp_ms, producer_id, epoch, sequence, count)
    length = _PREFIX.size + _CHECKED.size - _LENGTH_BASE + len(body)
    return _PREFIX.pack(0, length, -1, 2, crc32c(body, crc32c(head))) + head + body


def _field(content: bytes | None) -> bytes:
    return _NULL if content is None else varint(len(content)) + content
