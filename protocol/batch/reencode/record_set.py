"""Records of format v2, decompressed, and their copies without gaps."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from protocol.batch.compression import Inflated, compress
from protocol.batch.header import HEADER_BYTES
from protocol.batch.reencode.pieces import Piece, Runs
from protocol.batch.varints import read_varint, varint
from protocol.batch.work import EACH, Spend, units, unlimited

_PREFIX: Final = Struct(">qiibI")  # base offset, length, partition leader epoch, magic, crc
_CHECKED: Final = Struct(">hiqqqhii")  # from the attributes to the record count
_LENGTH_BASE: Final = 12
_NO_PRODUCER: Final = -1


class RecordSet(NamedTuple):
    """The records of one source batch, encoded as in a v2 batch, decompressed.

    `append_time`: every record's timestamp if the broker set it (LogAppendTime), else None.
    `like`: the compressed bytes they came from. `next_offset`: the offset after the source batch.
    """

    body: Inflated
    count: int  # type: ignore[assignment]  # tuple.count is not missed
    base_offset: int
    base_timestamp: int
    append_time: int | None
    codec: int
    like: memoryview
    next_offset: int
    leader_epoch: int


class _Copy(NamedTuple):
    body: bytearray
    count: int  # type: ignore[assignment]
    runs: Runs
    max_timestamp: int


def encode(records: RecordSet, position: int, max_bytes: int, spend: Spend = unlimited) -> Iterator[Piece]:
    """The records at `position` and beyond as batches of up to `max_bytes`; a larger one holds a single record.

    Raises:
        IndexError: the bytes are not records.
    """
    spend(units(len(records.body), records.codec))
    yield from _Encoder(records, position, max_bytes, spend).pieces(0, records.count, last=True)


class _Encoder(NamedTuple):
    """The arguments of `encode`."""

    records: RecordSet
    position: int
    max_bytes: int
    spend: Spend

    def pieces(self, lo: int, hi: int, *, last: bool) -> Iterator[Piece]:
        """The pieces for records `lo` .. `hi`-1, counted from the position on."""
        records = self.records
        copy = self._copy(lo, hi)
        if not copy.count:
            return
        data = _batch(records, copy)
        if len(data) > self.max_bytes and copy.count > 1:
            middle = lo + copy.count // 2
            yield from self.pieces(lo, middle, last=False)
            yield from self.pieces(middle, lo + copy.count, last=last)
            return
        following = records.next_offset if last else sum(copy.runs[-1])
        yield Piece(data, copy.count, copy.runs, following, copy.max_timestamp, records.leader_epoch)

    def _copy(self, lo: int, hi: int) -> _Copy:
        """A copy of these records, with offset deltas from 0 on."""
        records, position, spend = self.records, self.position, self.spend
        body, base_offset = records.body, records.base_offset
        keeps_times = records.append_time is None
        out, runs = bytearray(), _RunList()
        index, at, before, latest = 0, 0, -1, None
        for done in range(records.count):
            if not done % EACH:
                spend(min(EACH, records.count - done))
            size, at = read_varint(body, at)
            end = at + size
            time_delta, times_end = read_varint(body, at + 1)  # after the attributes, which have no meaning
            offset_delta, rest = read_varint(body, times_end)
            if end > len(body) or rest > end or offset_delta <= before:
                raise IndexError("a record that is longer than the batch, or out of order")
            before = offset_delta
            if base_offset + offset_delta >= position:
                if lo <= index < hi:
                    number = varint(index - lo)
                    head = body[at:times_end] if keeps_times else b"\0\0"
                    out += varint(len(head) + len(number) + end - rest) + head + number
                    out += body[rest:end]
                    runs.add(base_offset + offset_delta)
                    latest = time_delta if latest is None or time_delta > latest else latest
                index += 1
            at = end
        if at != len(body) or base_offset + before >= records.next_offset:
            raise IndexError("other records than the header says")
        if records.append_time is not None:
            return _Copy(out, runs.count, runs.closed(), records.append_time)
        return _Copy(out, runs.count, runs.closed(), records.base_timestamp + (latest or 0))


class _RunList:
    """Gathers ascending source offsets into runs."""

    __slots__ = ("_expected", "_runs", "_start", "count")

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []
        self._start = self._expected = -1
        self.count = 0

    def add(self, offset: int) -> None:
        self.count += 1
        if offset != self._expected:
            self._close()
            self._start = offset
        self._expected = offset + 1

    def _close(self) -> None:
        if self._start >= 0:
            self._runs.append((self._start, self._expected - self._start))

    def closed(self) -> Runs:
        self._close()
        return tuple(self._runs)


def _batch(records: RecordSet, copy: _Copy) -> bytes:
    """A batch without a producer, at the source offset of its first record."""
    body = compress(records.codec, copy.body, records.like)
    base_timestamp = records.base_timestamp if records.append_time is None else records.append_time
    head = _CHECKED.pack(
        records.codec, copy.count - 1, base_timestamp, copy.max_timestamp, _NO_PRODUCER, -1, -1, copy.count
    )
    length = HEADER_BYTES - _LENGTH_BASE + len(body)
    crc = crc32c(body, crc32c(head))
    return _PREFIX.pack(copy.runs[0][0], length, records.leader_epoch, 2, crc) + head + body
