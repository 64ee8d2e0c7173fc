"""Converts the record set of a Fetch answer, in any formats, to pieces and skips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from protocol.batch.aborted import AbortedTransactions
from protocol.batch.compression import MAX_INFLATED, TooLarge, decompress
from protocol.batch.header import HEADER_BYTES, BatchHeader, crc_is_valid, read_batch_header
from protocol.batch.reencode.legacy import Gathered, Message, read_message, unwrap
from protocol.batch.reencode.pieces import CorruptRecords, Piece, Skip
from protocol.batch.reencode.record_set import RecordSet, encode
from protocol.batch.work import Spend, units, unlimited
from protocol.errors import MalformedFrame

NO_LIMIT: Final = (1 << 31) - 1
_GATHER_BYTES: Final = 256 << 10
"""Plain messages of old formats are gathered into batches of about this size."""

_PREFIX: Final = Struct(">qi")  # base offset, length of what follows
_MAGIC_AT: Final = 16
_V2: Final = 2


def convert(
    records: memoryview,
    position: int,
    aborted: Iterable[tuple[int, int]] = (),
    *,
    max_bytes: int = NO_LIMIT,
    max_inflated: int = MAX_INFLATED,
    spend: Spend = unlimited,
) -> Iterator[Piece | Skip]:
    """The pieces and skips of a record set, in order; leaves out data below `position`.

    A batch that is cut off at the end is left for the next Fetch. An unchanged batch costs only its header and its
    checksum.

    Args:
        records: the record set of one partition, from a Fetch with isolation level read_committed when the log may
            hold transactions.
        position: source offset of the first record wanted.
        aborted: (producer id, first offset) as that Fetch answer lists them.
        max_bytes: largest batch; a larger one is split into several, unless it is a single record.
        max_inflated: largest decompressed size of one batch, in bytes.
        spend: called with the work on re-encoded batches; its exceptions are passed on.

    Raises:
        TooLarge: a batch has more bytes than `max_inflated`.
        CorruptRecords: bytes that no broker wrote; everything before them has been yielded.
    """
    skipped: Skip | None = None
    for item in _Converter(position, aborted, max_bytes, max_inflated, spend).items(records):
        if isinstance(item, Piece):
            if skipped:
                yield skipped
            skipped = None
            yield item
        elif item.next_source > position:
            skipped = item
    if skipped:
        yield skipped


class _Converter:
    """One record set's way through `convert`; the arguments are the same."""

    __slots__ = ("_aborted", "_expected", "_max_bytes", "_max_inflated", "_plain", "_position", "_spend")

    def __init__(
        self, position: int, aborted: Iterable[tuple[int, int]], max_bytes: int, max_inflated: int, spend: Spend
    ) -> None:
        self._spend = spend
        self._position = position
        self._aborted = AbortedTransactions(aborted)
        self._max_bytes = max_bytes
        self._max_inflated = max_inflated
        self._plain = Gathered()  # messages of v0 or v1, until there are enough for a batch
        self._expected = 0  # the next batch's offset must not be below this

    def items(self, records: memoryview) -> Iterator[Piece | Skip]:
        """Pieces and skips, in order; skips are not merged yet."""
        at, end = 0, len(records)
        while end - at > _MAGIC_AT:
            offset, length = _PREFIX.unpack_from(records, at)
            following = at + _PREFIX.size + length
            if length > _MAGIC_AT - _PREFIX.size and following > end:
                break
            try:
                if offset < self._expected or following - at <= _MAGIC_AT:
                    raise MalformedFrame(f"a batch of {length} bytes, after one that ends at {self._expected}")
                self._expected = offset + 1
                yield from self._entry(offset, records[at:following])
            except TooLarge as exc:
                raise TooLarge(f"the records at source offset {offset}: {exc}") from None
            except (MalformedFrame, IndexError) as exc:
                yield from self._flush()
                raise CorruptRecords(offset, str(exc)) from None
            at = following
        yield from self._flush()

    def _entry(self, offset: int, data: memoryview) -> Iterator[Piece | Skip]:
        if data[_MAGIC_AT] == _V2:
            yield from self._flush()
            yield from self._batch(data)
        elif offset >= self._position:  # a wrapper's offset is that of its last message
            yield from self._message(read_message(data))

    def _message(self, message: Message) -> Iterator[Piece | Skip]:
        plain = self._plain
        if message.codec:
            yield from self._flush()
            self._spend(units(len(message.value or b"")))
            yield from self._encoded(unwrap(message, self._max_inflated, self._spend))
            return
        if len(plain.body) > _GATHER_BYTES or not plain.fits(message.offset):
            yield from self._flush()
        self._spend(1)
        self._plain.add(message, message.offset)

    def _flush(self) -> Iterator[Piece]:
        plain, self._plain = self._plain, Gathered()
        if plain.count:
            yield from encode(plain.records(), self._position, self._max_bytes, self._spend)

    def _batch(self, data: memoryview) -> Iterator[Piece | Skip]:
        """A batch of format v2."""
        header = read_batch_header(data)
        if header.last_offset_delta < 0 or not 0 <= header.count <= header.last_offset_delta + 1:
            raise MalformedFrame(f"a batch of {header.count} records for {header.last_offset_delta} + 1 offsets")
        is_aborted = self._aborted.is_aborted(header)
        following = self._expected = header.next_offset
        if following <= self._position:
            return
        if not crc_is_valid(data, header):
            raise MalformedFrame("a batch that fails its checksum")
        if is_aborted or header.is_control or not header.count:
            yield Skip(following, header.partition_leader_epoch)
        elif header.base_offset >= self._position and self._is_fit(header):
            runs = ((header.base_offset, header.count),)
            yield Piece(data, header.count, runs, following, header.max_timestamp, header.partition_leader_epoch)
        else:
            self._spend(units(len(data)))
            yield from self._encoded(_record_set(data, header, self._max_inflated, self._spend))

    def _is_fit(self, header: BatchHeader) -> bool:
        """True when the batch only needs another header.

        A batch with a delete horizon has that in place of its base timestamp, and the records' timestamps relative to
        it (KIP-534), so they are right once the bit is cleared.
        """
        if not header.is_dense or header.is_log_append_time:
            return False
        return header.size <= self._max_bytes or header.count == 1

    def _encoded(self, records: RecordSet) -> Iterator[Piece | Skip]:
        empty = True
        for piece in encode(records, self._position, self._max_bytes, self._spend):
            empty = False
            yield piece
        if empty:
            yield Skip(records.next_offset, records.leader_epoch)


def _record_set(data: memoryview, header: BatchHeader, max_inflated: int, spend: Spend) -> RecordSet:
    body = data[HEADER_BYTES:]
    return RecordSet(
        body=decompress(header.codec, body, max_inflated, spend),
        count=header.count,
        base_offset=header.base_offset,
        base_timestamp=header.base_timestamp,
        append_time=header.max_timestamp if header.is_log_append_time else None,
        codec=header.codec,
        like=body,
        next_offset=header.next_offset,
        leader_epoch=header.partition_leader_epoch,
    )
