"""Whose a record batch is: producer id, epoch and first sequence of a v2 batch, read and written anew.

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
    """`producer_id` and `epoch` are -1, `sequence` too, in a batch of a producer without an id."""

    producer_id: int
    epoch: int
    sequence: int


_NONE = Stamp(-1, -1, -1)


def stamp_of(batch: Buffer) -> Stamp:
    """The stamp of a batch; that of no producer when this is no v2 batch."""
    if len(batch) < HEADER_BYTES or batch[_MAGIC_AT] != 2:
        return _NONE
    return Stamp(*_PRODUCER.unpack_from(batch, _PRODUCER_AT))


def restamped(batch: Buffer, producer_id: int, epoch: int) -> Buffer:
    """The batch as one of another producer, with a new checksum; sequence, attributes and records are as they were.

    A batch that fails its checksum stays one that does, and what is no v2 batch is left alone: both are the broker's
    to refuse.
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
