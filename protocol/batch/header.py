"""Record batches (magic 2) as bytes: reads and rewrites their 61-byte header, without decoding records.

Layout: https://kafka.apache.org/documentation/#recordbatch. The CRC-32C covers everything from the attributes
(byte 21) to the end, so base offset and partition leader epoch are outside of it.

`extent` tells from sizes alone how far the batches of a record set reach, for callers that pass them on unread.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from crc32c import crc32c

from protocol.batch.padding import padding_records
from protocol.errors import MalformedFrame, ProtocolError
from protocol.wire import Buffer

HEADER_BYTES = 61
SEQUENCES = 1 << 31  # sequence numbers are 0 .. 2^31-1 and wrap

_PREFIX = Struct(">qiib")  # base offset, length, partition leader epoch, magic
_HEADER = Struct(">qiibIhiqqqhii")
_CHECKED = Struct(">hiqqqhii")  # from the attributes to the record count
_LENGTH_BASE = 12  # the length field counts what follows it
_CRC = Struct(">I")

_ZSTD = 4

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
# What a copy must not carry: the target decides on timestamp types and transactions itself, and a delete
# horizon (KIP-534) is the source log cleaner's own note.
_CLEARED = ~(LOG_APPEND_TIME | TRANSACTIONAL | DELETE_HORIZON)


class OldFormat(ProtocolError):
    """Records of format v0 or v1 (magic below 2), which are not copied as they are."""


class BatchHeader(NamedTuple):
    """The fields of a record batch header, in wire order."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # tuple.count is not missed

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + _LENGTH_BASE

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record (wraps after 2^31-1), -1 without a sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % SEQUENCES

    @property
    def codec(self) -> int:
        """Compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Holds a transaction marker, not data."""
        return self.attributes & CONTROL != 0

    @property
    def is_log_append_time(self) -> bool:
        """All records have `max_timestamp` as their timestamp."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_dense(self) -> bool:
        """Every offset of its range has a record (compaction has left no offset gap)."""
        return self.count == self.last_offset_delta + 1


_new = tuple.__new__


def read_batch_header(batch: Buffer, at: int = 0) -> BatchHeader:
    """Read the header of the batch that begins at `at`.

    Raises:
        MalformedFrame: fewer than 61 bytes.
    """
    try:
        return _new(BatchHeader, _HEADER.unpack_from(batch, at))
    except StructError as exc:
        raise MalformedFrame("a record batch shorter than its header") from exc


def iter_batches(records: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield each whole batch of a record set with its header; stop at a tail that is cut off.

    (A broker cuts the last batch off where the size limit of a fetch falls.)

    Raises:
        OldFormat: at the first batch of magic 0 or 1; those before it have been yielded.
        MalformedFrame: a batch that cannot be one.
    """
    at, end = 0, len(records)
    unpack, header_of, new = _HEADER.unpack_from, BatchHeader, _new
    while end - at >= HEADER_BYTES:
        header = new(header_of, unpack(records, at))
        if header[3] != 2:
            raise bad_magic(header[3])
        size = header[1] + _LENGTH_BASE
        if size < HEADER_BYTES or header[6] < 0 or header[0] < 0:
            raise MalformedFrame(f"a record batch of {size} bytes, offset {header[0]} + {header[6]}")
        if size > end - at:
            return
        yield header, records[at : at + size]
        at += size
    if end - at >= _PREFIX.size and records[at + 16] != 2:
        raise bad_magic(records[at + 16])


def bad_magic(magic: int) -> ProtocolError:
    """What to raise for a batch of another magic than 2."""
    if magic in (0, 1):
        return OldFormat(f"records of format v{magic}")
    return MalformedFrame(f"a record batch of magic {magic}")


def crc_is_valid(batch: memoryview, header: BatchHeader) -> bool:
    """True when the batch's CRC-32C matches its content."""
    return crc32c(batch[21:]) == header.crc


_KEPT = Struct(">hiqqi")  # attributes, last offset delta, base and max timestamp, record count
_KEPT_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME


def batch_digest(batch: memoryview, header: BatchHeader) -> bytes:
    """SHA-256 of everything a copy must not change: the encoded records, and the header fields they depend on.

    Leaves out what differs in a copy: offsets, leader epoch, producer, sequence, checksum, transactional bit.
    Equal digests mean equal keys, values, headers and timestamps, record by record.
    """
    kept = _KEPT.pack(
        header.attributes & _KEPT_ATTRIBUTES,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.count,
    )
    digest = sha256(kept)
    digest.update(batch[HEADER_BYTES:])
    return digest.digest()


def rewrite_batch(batch: memoryview, *, producer_id: int, sequence: int) -> bytearray:
    """Copy a batch under another producer: base offset 0, no leader epoch, epoch 0, a new CRC.

    The transactional and LogAppendTime bits are cleared. Records are untouched: in a LogAppendTime batch they
    carry the producer's timestamps, so a caller that must keep the log's own has to re-encode it instead.

    Raises:
        MalformedFrame: fewer than 61 bytes.
    """
    head, rest = restamped(batch, producer_id=producer_id, sequence=sequence)
    copy = bytearray(head)
    copy += rest
    return copy


def restamped(batch: memoryview, *, producer_id: int, sequence: int) -> tuple[bytes, memoryview]:
    """Same as `rewrite_batch`, without copying the records: the new header, and the records as a view of `batch`.

    Raises:
        MalformedFrame: fewer than 61 bytes.
    """
    try:
        _, length, _, magic, _, attributes, delta, base_ts, max_ts, _, _, _, count = _HEADER.unpack_from(batch)
    except StructError as exc:
        raise MalformedFrame("a record batch shorter than its header") from exc
    checked = _CHECKED.pack(attributes & _CLEARED, delta, base_ts, max_ts, producer_id, 0, sequence, count)
    rest = batch[HEADER_BYTES:]
    return _PREFIX.pack(0, length, -1, magic) + _CRC.pack(crc32c(rest, crc32c(checked))) + checked, rest


_PRODUCER_ID = Struct(">q")
_CRC_AT, _CHECKED_AT, _PRODUCER_ID_AT = 17, 21, 43


def producer_id_of(batch: Buffer) -> int:
    """The producer id of a v2 batch, -1 without one or when this is no v2 batch."""
    if len(batch) < HEADER_BYTES or batch[16] != 2:
        return -1
    found: int = _PRODUCER_ID.unpack_from(batch, _PRODUCER_ID_AT)[0]
    return found


def with_producer_id(batch: Buffer, producer_id: int) -> bytearray:
    """Copy a v2 batch under another producer id, with a new checksum; nothing else changes.

    A batch that fails its checksum still fails it: the broker refuses it.
    """
    copy = bytearray(batch)
    with memoryview(copy) as view:
        (crc,) = _CRC.unpack_from(view, _CRC_AT)
        broken = crc32c(view[_CHECKED_AT:]) ^ crc
        _PRODUCER_ID.pack_into(view, _PRODUCER_ID_AT, producer_id)
        _CRC.pack_into(view, _CRC_AT, crc32c(view[_CHECKED_AT:]) ^ broken)
    return copy


def codec_of(batch: Buffer) -> int:
    """The compression of a whole v2 batch, see `BatchHeader.codec`."""
    return batch[_CHECKED_AT + 1] & CODEC_MASK


def mirror_sequence(offset: int) -> int:
    """The base sequence of a mirrored batch: its target base offset mod 2^31."""
    return offset % SEQUENCES


def header_of(
    records: Buffer, *, codec: int, count: int, base_ms: int, latest_ms: int, producer_id: int, sequence: int
) -> bytes:
    """The header of a batch with these encoded records: base offset 0, no leader epoch, producer epoch 0."""
    checked = _CHECKED.pack(codec, count - 1, base_ms, latest_ms, producer_id, 0, sequence, count)
    length = HEADER_BYTES + len(records) - _LENGTH_BASE
    return _PREFIX.pack(0, length, -1, 2) + _CRC.pack(crc32c(records, crc32c(checked))) + checked


def padding_batch(count: int, sequence: int, producer_id: int, timestamp_ms: int) -> bytes:
    """A batch of `count` null records that takes up as many offsets (zstd; see `protocol.batch.padding`).

    Raises:
        ValueError: `count` is not 1 .. `padding.MAX_PADDING`.
    """
    body = padding_records(count)
    head = header_of(
        body,
        codec=_ZSTD,
        count=count,
        base_ms=timestamp_ms,
        latest_ms=timestamp_ms,
        producer_id=producer_id,
        sequence=sequence,
    )
    return head + body


_BASE_AND_LENGTH: Final = Struct(">qi")
_MAGIC_AT: Final = 16


class Extent(NamedTuple):
    """`size`: bytes. `last`: header of the last batch, None without any. `ended`: the next one is not below the end."""

    size: int
    last: BatchHeader | None
    ended: bool


def extent(records: memoryview, end: int) -> Extent:
    """The extent of the whole batches at the beginning of `records` whose last offset is below `end`.

    Raises:
        MalformedFrame: bytes that cannot be a batch.
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
