"""One log of a piece, read in order: its data batches, and every offset of it in one count. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from gateway.jobs.audit.pieces import Span
from gateway.jobs.audit.sums import SideSums
from gateway.state.provenance import kind_of_writer
from protocol.batch.header import BatchHeader
from protocol.batch.record_reader import Record, read_records


class LogBatch(NamedTuple):
    """A batch as the log has it. `is_aborted`: data of an aborted transaction."""

    header: BatchHeader
    is_aborted: bool
    data: memoryview


class BatchFeed(Protocol):
    """The batches of a log that hold an offset of a span, in order, those across its borders whole.

    `log_start`: as far as reading has told; what is below it is deleted. It is right before the first batch is given.
    """

    log_start: int

    def __iter__(self) -> Iterator[LogBatch]: ...


class Data(NamedTuple):
    """A batch with records that a consumer sees. `is_whole`: all of its offsets are wanted."""

    header: BatchHeader
    data: memoryview
    is_whole: bool
    low: int
    high: int

    def records(self) -> list[Record]:
        """Those that are wanted."""
        return _within(self.header, self.data, self.low, self.high)


class LogSide:
    """Args: the feed, the offsets that are wanted, and where to count them."""

    def __init__(self, feed: BatchFeed, span: Span, sums: SideSums) -> None:
        self._feed = feed
        self._span = span
        self._sums = sums
        self._position = span.low
        sums.offsets += span.size

    @property
    def log_start(self) -> int:
        """What is below it is known to be deleted."""
        return self._feed.log_start

    def __iter__(self) -> Iterator[Data]:
        """The data batches. At the end, every offset of the span is counted."""
        sums, high = self._sums, self._span.high
        batches: Iterable[LogBatch] = self._feed if self._span.size else ()
        for header, is_aborted, data in batches:
            self._skip_deleted()
            low = self._position
            last = header.last_offset
            if last < low:
                continue
            if header.base_offset >= high:
                break
            if header.base_offset > low:
                sums.gaps += header.base_offset - low
                low = header.base_offset
            self._position = end = min(last + 1, high)
            is_whole = low == header.base_offset and end == last + 1
            found = header.count if is_whole or not header.count else len(_within(header, data, low, end))
            sums.gaps += end - low - found
            if header.is_control:
                sums.markers += found
            elif is_aborted:
                sums.aborted += found
            else:
                sums.records += found
                sums.writers[kind_of_writer(header.producer_id)] += found
                if found:
                    yield Data(header, data, is_whole, low, end)
        self._skip_deleted()
        sums.gaps += max(0, high - self._position)
        self._position = max(self._position, high)

    def _skip_deleted(self) -> None:
        start = min(self._feed.log_start, self._span.high)
        if start > self._position:
            self._sums.deleted += start - self._position
            self._position = start


def _within(header: BatchHeader, data: memoryview, low: int, high: int) -> list[Record]:
    return [record for record in read_records(header, data) if low <= record.offset < high]
