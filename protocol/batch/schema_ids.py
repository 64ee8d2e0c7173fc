"""Finds schema ids in records, and rewrites them for another schema registry.

Serializers that use a schema registry put five bytes before the encoded data: a zero, the magic byte, and the schema's
id in four bytes ("Wire format" in https://docs.confluent.io/platform/current/schema-registry/fundamentals/). With
Protobuf the indexes of the message follow, which mean the same for either registry. Some serializers put the same bytes
into a header instead, or an id of eight bytes (Apicurio's content id); Apicurio's before version 3 put such an id after
the magic byte, which looks like id 0 in four bytes, and no schema has that. A rewritten id takes as many bytes as
before. So no length, offset or count of a batch changes: it is the old batch except for these bytes, its checksum, and
its compression. A header with the magic byte 1 has a schema's GUID, which is derived from the schema and not assigned
by a registry: it stays.

Nothing marks bytes as an id; a key that is a number may begin with a zero, too. So an id is only translated if the map
knows it, and only in the named places.

Layout of records: https://kafka.apache.org/documentation/#record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from protocol.batch.compression import MAX_INFLATED, compress, decompress, mutable
from protocol.batch.header import HEADER_BYTES, BatchHeader, bad_magic, read_batch_header
from protocol.batch.varints import read_varint
from protocol.batch.work import EACH, Spend, units, unlimited
from protocol.errors import MalformedFrame
from protocol.wire import Buffer

SAMPLED_BYTES: Final = 65_536
"""Largest compressed size of a sampled batch, in bytes."""

_V2: Final = 2
_MAGIC: Final = 0
_ID: Final = Struct(">i")
_LONG_ID: Final = Struct(">q")
_ID_AT: Final = 1
_FRAMED: Final = 1 + _ID.size
_HEADERS: Final = frozenset({b"__key_schema_id", b"__value_schema_id"})
_LONG_HEADERS: Final = frozenset({b"apicurio.key.contentId", b"apicurio.value.contentId"})
_LENGTH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_LENGTH_AT, _CRC_AT, _CHECKED_AT = 8, 17, 21
_LENGTH_BASE: Final = 12
_INFLATED: Final = 1 << 20
"""Largest decompressed size of a sampled batch, in bytes."""


class SchemaIdPlaces(NamedTuple):
    """Where ids are looked for."""

    key: bool = True
    value: bool = True
    headers: bool = True

    @classmethod
    def named(cls, names: Collection[str]) -> SchemaIdPlaces:
        """By the names of its fields."""
        return cls(*(name in names for name in cls._fields))


class ReencodedIds(NamedTuple):
    """`batch`: the same object when no id was rewritten. `count`: ids rewritten. `unknown`: apparent ids that the map
    lacks."""

    batch: memoryview | bytes
    count: int  # type: ignore[assignment]  # tuple.count is not missed
    unknown: frozenset[int]


class _Found(NamedTuple):
    """An id in a record set: its position, its encoding, and its value."""

    at: int
    struct: Struct
    id: int


EVERYWHERE: Final = SchemaIdPlaces()


def translated(
    batch: memoryview,
    ids: Mapping[int, int],
    places: SchemaIdPlaces = EVERYWHERE,
    max_inflated: int = MAX_INFLATED,
    spend: Spend = unlimited,
) -> ReencodedIds:
    """A batch of format v2 with the target's ids in place of the source's.

    Args:
        ids: source id -> target id, both from 0 to 2^31 - 1.
        max_inflated: largest decompressed size of the records, in bytes.
        spend: its exceptions are passed on; then nothing was changed.

    Raises:
        TooLarge: the records have more bytes than `max_inflated`.
        MalformedFrame: it is not a whole batch of format v2, its records are not what its header says, or cannot be
            decompressed.
    """
    header = _header(batch)
    if header.is_control or not header.count:
        return ReencodedIds(batch, 0, frozenset())
    spend(units(len(batch)))
    body = mutable(decompress(header.codec, batch[HEADER_BYTES:], max_inflated, spend), spend=spend)
    spend(units(len(body), header.codec))
    count, unknown = 0, set()
    for found in _found(body, header, places, header.count, spend):
        new = ids.get(found.id)
        if new is None:
            unknown.add(found.id)
        elif new != found.id:
            found.struct.pack_into(body, found.at, new)
            count += 1
    made = _batch(batch, header, body) if count else batch
    return ReencodedIds(made, count, frozenset(unknown))


def sampled_ids(batch: memoryview, places: SchemaIdPlaces = EVERYWHERE) -> frozenset[int]:
    """The apparent ids in the first record of a batch. Must be cheap, so none for a large compressed batch.

    Raises:
        MalformedFrame: as `translated`, as far as it is seen.
    """
    header = _header(batch)
    body: Buffer = batch[HEADER_BYTES:]
    if header.is_control or not header.count or (header.codec and len(body) > SAMPLED_BYTES):
        return frozenset()
    if header.codec:
        try:
            body = decompress(header.codec, batch[HEADER_BYTES:], _INFLATED)
        except MalformedFrame:
            return frozenset()
    return frozenset(found.id for found in _found(body, header, places, 1, unlimited))


def _header(batch: memoryview) -> BatchHeader:
    header = read_batch_header(batch)
    if header.magic != _V2:
        raise bad_magic(header.magic)
    if header.size != len(batch) or header.count < 0:
        raise MalformedFrame(f"the batch at offset {header.base_offset}: {len(batch)} bytes of {header.size}")
    return header


def _batch(batch: memoryview, header: BatchHeader, body: Buffer) -> bytes:
    """The batch with other records of the same number and sizes."""
    data = compress(header.codec, body, batch[HEADER_BYTES:])
    made = bytearray(batch[:HEADER_BYTES])
    made += data
    _LENGTH.pack_into(made, _LENGTH_AT, len(made) - _LENGTH_BASE)
    with memoryview(made) as view:
        _CRC.pack_into(made, _CRC_AT, crc32c(view[_CHECKED_AT:]))
    return bytes(made)


def _found(body: Buffer, header: BatchHeader, places: SchemaIdPlaces, count: int, spend: Spend) -> Iterator[_Found]:
    """Ids in the first `count` records."""
    at = 0
    try:
        for number in range(count):
            if not number % EACH:
                spend(min(EACH, count - number))
            size, at = read_varint(body, at)
            end = at + size
            if size < 0 or end > len(body):
                raise IndexError("a record that is longer than the batch")
            yield from _of_record(body, at, end, places, spend)
            at = end
    except IndexError as exc:
        raise MalformedFrame(f"the batch at offset {header.base_offset}: {exc}") from None
    if count == header.count and at != len(body):
        raise MalformedFrame(f"the batch at offset {header.base_offset}: {len(body) - at} bytes too many")


def _of_record(body: Buffer, at: int, end: int, places: SchemaIdPlaces, spend: Spend) -> Iterator[_Found]:
    _, at = read_varint(body, at + 1)  # timestamp delta, after the attributes
    _, at = read_varint(body, at)  # offset delta
    for wanted in (places.key, places.value):
        start, at = _field(body, at, end)
        if wanted:
            yield from _framed(body, start, at)
    count, at = read_varint(body, at)
    for number in range(count if places.headers else 0):
        if not number % EACH:
            spend(min(EACH, count - number))
        start, at = _field(body, at, end)
        name = bytes(body[start:at])
        start, at = _field(body, at, end)
        if name in _HEADERS:
            yield from _framed(body, start, at)
        elif name in _LONG_HEADERS and at - start == _LONG_ID.size:
            yield from _id(body, start, _LONG_ID)
    if places.headers and at != end:
        raise IndexError("a record of another length than it says")


def _framed(body: Buffer, start: int, end: int) -> Iterator[_Found]:
    """Behind a magic byte."""
    if end - start < _FRAMED or body[start] != _MAGIC:
        return
    at = start + _ID_AT
    if end - at >= _LONG_ID.size and not _ID.unpack_from(body, at)[0]:
        yield from _id(body, at, _LONG_ID)
    else:
        yield from _id(body, at, _ID)


def _id(body: Buffer, at: int, struct: Struct) -> Iterator[_Found]:
    """Ids are positive numbers of 31 bits."""
    (found,) = struct.unpack_from(body, at)
    if 0 < found < 1 << 31:
        yield _Found(at, struct, found)


def _field(body: Buffer, at: int, end: int) -> tuple[int, int]:
    """Where a field begins and ends; both the same for null."""
    size, at = read_varint(body, at)
    if size < 0:
        return at, at
    if at + size > end:
        raise IndexError("a field that is longer than its record")
    return at, at + size
