"""The producer of a record batch: reads and rewrites producer id, epoch and first sequence of a v2 batch.

Layout: https://kafka.apache.org/documentation/#recordbatch (producer id at byte 43).
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from protocol.batch.header import HEADER_BYTES
from protocol.wire import Buffer

_PRODUCER = Struct(">qhi")
_PRODUCER_AT = 43
_STAMP = Struct(">qh")
_CRC = Struct(">I")
_CRC_AT, _CHECKED_AT, _MAGIC_AT = 17, 21, 16


class Stamp(NamedTuple):
    """All three are -1 in a batch of a producer without an id."""

    producer_id: int
    epoch: int
    sequence: int


_NONE = Stamp(-1, -1, -1)


def stamp_of(batch: Buffer) -> Stamp:
    """The stamp of a batch; all -1 if this is no v2 batch."""
    if len(batch) < HEADER_BYTES or batch[_MAGIC_AT] != 2:
        return _NONE
    return Stamp(*_PRODUCER.unpack_from(batch, _PRODUCER_AT))


def restamped(batch: Buffer, producer_id: int, epoch: int) -> Buffer:
    """The batch under another producer, with a new checksum; sequence, attributes and records do not change.

    A batch that fails its checksum still fails it, and anything that is no v2 batch is not changed: the broker refuses
    both.
    """
    if len(batch) < HEADER_BYTES or batch[_MAGIC_AT] != 2:
        return batch
    copy = bytearray(batch)
    with memoryview(copy) as view:
        (crc,) = _CRC.unpack_from(view, _CRC_AT)
        wrong = crc32c(view[_CHECKED_AT:]) ^ crc
        _STAMP.pack_into(view, _PRODUCER_AT, producer_id, epoch)
        _CRC.pack_into(view, _CRC_AT, crc32c(view[_CHECKED_AT:]) ^ wrong)
    return copy
