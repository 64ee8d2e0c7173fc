"""How far the whole batches of a record set reach, from their sizes alone: for whoever has them read elsewhere."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from protocol.batch.header import HEADER_BYTES, BatchHeader, bad_magic, read_batch_header
from protocol.errors import MalformedFrame

_BASE_AND_LENGTH: Final = Struct(">qi")
_MAGIC_AT: Final = 16


class Extent(NamedTuple):
    """`size`: bytes. `last`: header of the last batch, None without any. `ended`: what follows is not below the end."""

    size: int
    last: BatchHeader | None
    ended: bool


def extent(records: memoryview, end: int) -> Extent:
    """Of the whole batches at the beginning of `records` whose last offset is below `end`.

    Raises:
        MalformedFrame: a batch that cannot be one.
        OldFormat: the last of them is of magic 0 or 1.
    """
    at, last, before, limit, ended = 0, -1, -1, len(records), False
    unpack = _BASE_AND_LENGTH.unpack_from
    while limit - at >= HEADER_BYTES:
        base, length = unpack(records, at)
        if length < HEADER_BYTES - _BASE_AND_LENGTH.size:
            raise MalformedFrame(f"a record batch of {length} bytes at offset {base}")
        if ended := base >= end:
            break
        following = at + _BASE_AND_LENGTH.size + length
        if following > limit:
            break
        before, last, at = last, at, following
    header = _header(records, last)
    if header is not None and header.last_offset >= end:
        at, ended, header = last, True, _header(records, before)
    return Extent(at, header, ended)


def _header(records: memoryview, at: int) -> BatchHeader | None:
    if at < 0:
        return None
    if records[at + _MAGIC_AT] != 2:
        raise bad_magic(records[at + _MAGIC_AT])
    return read_batch_header(records, at)
