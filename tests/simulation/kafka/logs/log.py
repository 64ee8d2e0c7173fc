"""One replica's log: record batches as bytes, its segments, its leader epochs, and what it knows of producers.

A batch is decoded for judges only, and once. Replicas share the `Batch` objects, which do not change once they are in a
log. `start`, `high_watermark` and `end` are offsets as Kafka has them: first, first not yet in all of the ISR, next to
be written.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, Final

from protocol.batch.header import BatchHeader, read_batch_header
from protocol.batch.record_reader import read_records
from tests.simulation.kafka.logs.producer_state import Marker, ProducerTable

_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_MARKER_KEY: Final = Struct(">hh")
_MARKER_VALUE: Final = Struct(">hi")


class Batch:
    """A batch in a log: its bytes with base offset and leader epoch in place, and its header."""

    __slots__ = ("data", "decoded", "header", "last", "marker", "size")

    def __init__(self, data: bytes, header: BatchHeader, marker: Marker | None = None) -> None:
        self.decoded: Any = None  # its records, see `judged`
        self.data = data
        self.header = header
        self.last = header.last_offset
        self.size = len(data)
        self.marker = marker

    @classmethod
    def stamped(cls, data: bytes | bytearray | memoryview, base_offset: int, leader_epoch: int) -> Batch:
        """A batch as the leader appends it; its checksum does not cover what is written here."""
        copy = bytearray(data)
        _BASE_OFFSET.pack_into(copy, 0, base_offset)
        _LEADER_EPOCH.pack_into(copy, 12, leader_epoch)
        return cls.parsed(bytes(copy))

    @classmethod
    def parsed(cls, data: bytes) -> Batch:
        """A batch whose bytes are as they are to be kept."""
        header = read_batch_header(data)
        return cls(data, header, _marker_of(header, data) if header.is_control else None)


def _marker_of(header: BatchHeader, data: bytes) -> Marker | None:
    for record in read_records(header, memoryview(data)):
        _, kind = _MARKER_KEY.unpack_from(record.key or b"")
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value or b"")
        return Marker(kind == 1, coordinator_epoch, record.timestamp_ms)
    return None


class Segment:
    """A stretch of the log that retention and compaction take as one; the last is the active one.

    `youngest` is its batch with the latest timestamp, also when the log's start has moved beyond it.
    """

    __slots__ = ("base", "created_ms", "max_timestamp", "size", "youngest")

    def __init__(self, base: int, created_ms: int) -> None:
        self.base = base
        self.created_ms = created_ms
        self.max_timestamp = -1
        self.size = 0
        self.youngest: Batch | None = None


class ReplicaLog:
    """See the module."""

    __slots__ = ("_lasts", "_producers", "batches", "end", "epochs", "high_watermark", "segments", "start")

    def __init__(self) -> None:
        self.start = self.high_watermark = self.end = 0
        self.batches: list[Batch] = []
        self._lasts: list[int] = []  # last offset of each batch, for looking up
        self.epochs: list[tuple[int, int]] = []  # (leader epoch, first offset of it)
        self.segments: list[Segment] = [Segment(0, 0)]
        self._producers = ProducerTable()

    # -- growing --------------------------------------------------------------------------------------------------

    def append(self, batch: Batch, segment_bytes: int = 1 << 30, segment_ms: int = 1 << 62) -> None:
        """Add a batch whose base offset is at or after the end."""
        header = batch.header
        self.begin_epoch(header.partition_leader_epoch, header.base_offset)
        segment = self.segments[-1]
        if segment.size and (
            segment.size + batch.size > segment_bytes or header.max_timestamp - segment.created_ms > segment_ms
        ):
            segment = Segment(header.base_offset, header.max_timestamp)
            self.segments.append(segment)
        elif not segment.size:
            segment.created_ms = header.max_timestamp
        segment.size += batch.size
        if header.max_timestamp > segment.max_timestamp:
            segment.max_timestamp, segment.youngest = header.max_timestamp, batch
        self.batches.append(batch)
        self._lasts.append(batch.last)
        self.end = batch.last + 1

    def begin_epoch(self, epoch: int, start: int) -> None:
        """A leader of `epoch` writes from `start` on; known epochs are left alone."""
        epochs = self.epochs
        if epochs and epochs[-1][0] >= epoch:
            return
        while epochs and epochs[-1][1] >= start:
            epochs.pop()
        epochs.append((epoch, start))

    @property
    def producers(self) -> ProducerTable:
        """What the log knows of its producers, up to its end."""
        table = self._producers
        if table.end < self.end:
            for batch in self.batches[bisect_left(self._lasts, table.end) :]:
                table.take(batch.header, batch.marker)
            table.end = self.end
            table.replicated_to(self.high_watermark)
        return table

    def raise_high_watermark(self, offset: int) -> bool:
        """Move the high watermark, which never goes back; True when it moved."""
        offset = min(offset, self.end)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self._producers.unreplicated:
            self._producers.replicated_to(offset)
        return True

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended."""
        first = self.producers.first_unstable()
        if first is None:
            return self.high_watermark
        return min(max(first, self.start), self.high_watermark)

    # -- shrinking ------------------------------------------------------------------------------------------------

    def truncate(self, offset: int) -> None:
        """Drop everything from `offset` on, as a follower whose leader has something else there."""
        while self.epochs and self.epochs[-1][1] >= offset:
            self.epochs.pop()
        if offset >= self.end:
            return
        keep = bisect_left(self._lasts, offset)
        del self.batches[keep:], self._lasts[keep:]
        self.end = max(offset, self.start) if not self.batches else self.batches[-1].last + 1
        self.high_watermark = min(self.high_watermark, self.end)
        while self.epochs and self.epochs[-1][1] >= self.end:
            self.epochs.pop()
        while len(self.segments) > 1 and self.segments[-1].base >= self.end:
            self.segments.pop()
        self._measure(self.segments[-1])
        self.reload_producers()

    def restart_at(self, offset: int) -> None:
        """Drop everything and begin anew, as a follower that fell behind the leader's log start."""
        self.batches.clear()
        self._lasts.clear()
        self.epochs.clear()
        self.start = self.end = self.high_watermark = offset
        self.segments = [Segment(offset, 0)]
        self._producers = ProducerTable(offset)

    def advance_start(self, offset: int) -> bool:
        """Move the log start (DeleteRecords, retention); batches wholly below it go. True when it moved."""
        if offset <= self.start:
            return False
        table = self.producers
        self.start = offset
        gone = bisect_left(self._lasts, offset)
        del self.batches[:gone], self._lasts[:gone]
        while len(self.segments) > 1 and self.segments[1].base <= offset:
            del self.segments[0]
        while len(self.epochs) > 1 and self.epochs[1][1] <= offset:
            del self.epochs[0]
        if self.epochs and self.epochs[0][1] < offset:
            self.epochs[0] = (self.epochs[0][0], offset)
        table.replicated_to(offset)
        table.aborted = [entry for entry in table.aborted if entry.last_offset >= offset]
        if offset > self.end:
            self.restart_at(offset)
        return True

    def replace(self, batches: Iterable[Batch]) -> None:
        """Put the cleaner's batches in the place of all that are there; offsets, end and epochs stay."""
        self.batches = list(batches)
        self._lasts = [batch.last for batch in self.batches]
        for segment in self.segments:
            self._measure(segment)

    def reload_producers(self, only_last: bool = False) -> None:
        """Work the producers out anew from the log; `only_last` as after a clean stop (the snapshot has one batch)."""
        first = self.batches[0].header.base_offset if self.batches else self.end
        self._producers = ProducerTable(min(first, self.end))
        if only_last:
            self.producers.forget_batches()

    def expire_producers(self, now_ms: int, after_ms: int) -> None:
        """producer.id.expiration.ms."""
        self.producers.expire(now_ms, after_ms)

    def _measure(self, segment: Segment) -> None:
        inside = [batch for batch in self.batches if self.segment_of(batch.header.base_offset) is segment]
        segment.size = sum(batch.size for batch in inside)
        segment.youngest = max(inside, key=lambda batch: batch.header.max_timestamp, default=None)
        segment.max_timestamp = -1 if segment.youngest is None else segment.youngest.header.max_timestamp

    # -- reading --------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return sum(segment.size for segment in self.segments)

    def segment_of(self, offset: int) -> Segment:
        """The segment that an offset belongs to."""
        at = bisect_right(self.segments, offset, key=lambda segment: segment.base) - 1
        return self.segments[max(at, 0)]

    def read(self, offset: int, limit: int, max_bytes: int, whole_first: bool) -> bytes:
        """Bytes from the batch that has `offset`, below the offset `limit`, of one segment, `max_bytes` at most.

        The last batch may be cut off, as a broker does; `whole_first` lets the first one through whole.
        """
        at = bisect_left(self._lasts, offset)
        batches = self.batches
        if at == len(batches) or batches[at].header.base_offset >= limit:
            return b""
        segment_end = self._segment_end(batches[at].header.base_offset)
        pieces: list[bytes] = []
        size = 0
        for index in range(at, len(batches)):
            batch = batches[index]
            base = batch.header.base_offset
            if base >= limit or base >= segment_end or (size >= max_bytes and (pieces or not whole_first)):
                break
            pieces.append(batch.data)
            size += batch.size
        if not pieces:
            return b""
        allowed = max(max_bytes, len(pieces[0])) if whole_first else max_bytes
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return data[:allowed] if size > allowed else data

    def _segment_end(self, offset: int) -> int:
        if len(self.segments) == 1:
            return 1 << 62
        at = bisect_right(self.segments, offset, key=lambda segment: segment.base)
        return self.segments[at].base if at < len(self.segments) else 1 << 62

    def batches_from(self, offset: int) -> Sequence[Batch]:
        """The batches from the one on that has `offset` or follows it."""
        return self.batches[bisect_left(self._lasts, offset) :]

    def epoch_at_end(self) -> int:
        """The latest leader epoch that wrote here, -1 for none."""
        return self.epochs[-1][0] if self.epochs else -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch up to `epoch`, its end offset); (-1, -1) when there is none (KIP-101)."""
        epochs = self.epochs
        if epoch < 0 or not epochs:
            return -1, -1
        if epoch == epochs[-1][0]:
            return epoch, self.end
        at = bisect_right(epochs, epoch, key=lambda entry: entry[0])
        if at == len(epochs):
            return -1, -1  # an epoch that nobody here has heard of
        if at == 0:
            return epoch, epochs[0][1]
        return epochs[at - 1][0], epochs[at][1]

    def first_at(self, timestamp: int) -> Iterator[Batch]:
        """Batches from the first on that may have a record as young as `timestamp`."""
        for at, batch in enumerate(self.batches):
            if batch.header.max_timestamp >= timestamp:
                yield from self.batches[at:]
                return
