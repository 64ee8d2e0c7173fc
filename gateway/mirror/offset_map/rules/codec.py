"""The records of a link's map topic, as bytes.

The topic is compacted. Its records are *chunks*: the breakpoints that one writer needed for one batch, written before
the batch was appended; per partition one *mark* and one *read to*; and a *cut* for each time the copy lost records
(`mirror/offset_map/rules/ledger.py` has their meaning). Everything is big-endian and of fixed width; the first byte of
keys and values is a version::

    key     version u8, mirror id u32, period u16, partition i32, base i64 (-1 mark, -2 read to, -3 cut),
            writer u64 (0 for a mark and a read to)
    chunk   version u8, records i32, CRC u32, breakpoints u32,
            source offsets i64 × breakpoints, target offsets i64 × breakpoints
    mark    version u8, decided_to i64, seen i64
    read to version u8, copy_end i64, source i64
    cut     version u8, copy_end i64, seen i64

`period` is twice the topic's failback epoch, plus one for the mirror back to the source. `base` is the batch's target
offset; its record count and the CRC-32C in its header distinguish it from another batch there. A null value deletes.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

VERSION: Final = 1
MARK_BASE: Final = -1
READ_TO_BASE: Final = -2
CUT_BASE: Final = -3

_KEY: Final = Struct(">BIHiqQ")
_CHUNK: Final = Struct(">BiII")
_MARK: Final = Struct(">Bqq")


class MapFormatError(ValueError):
    """A record of a map topic that this version cannot read."""


class PartitionKey(NamedTuple):
    """Identifies one partition of a mirror in one mirror period."""

    mirror_id: int
    period: int
    partition: int


class MapKey(NamedTuple):
    """The key of a record of the map topic."""

    of: PartitionKey
    base: int
    writer: int


class Chunk(NamedTuple):
    """The breakpoints (sources[i], targets[i]) inside one batch or at its start."""

    records: int
    crc: int
    sources: array[int]
    targets: array[int]

    @classmethod
    def of(cls, records: int, crc: int, breakpoints: Iterable[tuple[int, int]]) -> Chunk:
        """From (source, target) pairs."""
        pairs = list(breakpoints)
        return cls(records, crc, array("q", [s for s, _ in pairs]), array("q", [t for _, t in pairs]))


class Mark(NamedTuple):
    """All chunks below target offset `decided_to` are decided, by the topic's records below its offset `seen`."""

    decided_to: int
    seen: int


class ReadTo(NamedTuple):
    """When the copy's log ended at `copy_end`, all records to copy below source offset `source` were on it.

    For the end of a log, where no record follows for which a breakpoint could be written.
    """

    copy_end: int
    source: int


class Cut(NamedTuple):
    """The copy has lost acknowledged records from target offset `copy_end` on, and gets them again.

    The topic's records below its offset `seen` are void for these target offsets.
    """

    copy_end: int
    seen: int


Value = Chunk | Mark | ReadTo | Cut


def period_number(failback_epoch: int, *, reverse: bool) -> int:
    """The number of a mirror period in keys."""
    return 2 * failback_epoch + reverse


def encode_key(key: MapKey) -> bytes:
    """The key's bytes."""
    return _KEY.pack(VERSION, *key.of, key.base, key.writer)


def encode_value(value: Value) -> bytes:
    """The value's bytes."""
    if isinstance(value, Mark | ReadTo | Cut):
        return _MARK.pack(VERSION, *value)
    head = _CHUNK.pack(VERSION, value.records, value.crc, len(value.sources))
    return head + _big_endian(value.sources) + _big_endian(value.targets)


def decode_key(data: bytes) -> MapKey:
    """The key. Raises MapFormatError."""
    _check_version(data)
    if len(data) != _KEY.size:
        raise MapFormatError(f"a key of {len(data)} bytes in the offset map")
    _, mirror_id, period, partition, base, writer = _KEY.unpack(data)
    return MapKey(PartitionKey(mirror_id, period, partition), base, writer)


def decode_value(key: MapKey, data: bytes) -> Value:
    """The value that belongs to the key. Raises MapFormatError."""
    _check_version(data)
    try:
        if key.base == MARK_BASE:
            return Mark(*_MARK.unpack(data)[1:])
        if key.base == READ_TO_BASE:
            return ReadTo(*_MARK.unpack(data)[1:])
        if key.base == CUT_BASE:
            return Cut(*_MARK.unpack(data)[1:])
        _, records, crc, breakpoints = _CHUNK.unpack_from(data)
    except StructError as exc:
        raise MapFormatError(f"a value of {len(data)} bytes in the offset map") from exc
    if len(data) != _CHUNK.size + 16 * breakpoints:
        raise MapFormatError(f"a value of {len(data)} bytes for {breakpoints} breakpoints in the offset map")
    middle = _CHUNK.size + 8 * breakpoints
    return Chunk(records, crc, _numbers(data[_CHUNK.size : middle]), _numbers(data[middle:]))


def _check_version(data: bytes) -> None:
    if not data or data[0] != VERSION:
        raise MapFormatError(f"the offset map has version {data[0] if data else 'none'}, this lockgate reads {VERSION}")


def _big_endian(values: array[int]) -> bytes:
    if sys.byteorder == "little":
        values = array("q", values)
        values.byteswap()
    return values.tobytes()


def _numbers(data: bytes) -> array[int]:
    values = array("q")
    values.frombytes(data)
    if sys.byteorder == "little":
        values.byteswap()
    return values
