"""A few records from one place in a log, shortened, for people to look at.

The slow path: records are decoded one by one, in a thread, and no more is read or inflated than the bounds below allow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from crc32c import crc32c

from gateway.kafka.cluster import BrokerError, Cluster
from gateway.kafka.logs.range_reader import BatchChunk, RangeReader
from gateway.kafka.offsets import EARLIEST, LATEST, list_offsets
from protocol.batch.header import BatchHeader
from protocol.batch.record_reader import Record, read_records
from protocol.errors import ErrorCode, MalformedFrame

MOST_RECORDS: Final = 100
"""In one excerpt."""
MOST_BYTES: Final = 4_096
"""Of a key or a value that is shown."""
_FETCH_BYTES: Final = 256 << 10
_READ_BYTES: Final = 16 << 20
"""Read for one excerpt, at most one batch more: a log whose batches hold one record each ends an excerpt early."""
_INFLATED: Final = 16 << 20
"""Bytes, decompressed, of a batch whose records are shown."""


class Shortened(NamedTuple):
    """A key or a value. `size`: all its bytes, of which `shown` has the first."""

    size: int
    shown: bytes

    @classmethod
    def of(cls, content: bytes | None, most_bytes: int) -> Shortened | None:
        """None for null."""
        return None if content is None else cls(len(content), content[:most_bytes])


class RecordExcerpt(NamedTuple):
    """One record, or one batch that shows none.

    `timestamp_ms`: as a consumer shows it. `crc`: CRC-32C of the whole key, value and headers, by which two records are
    compared. `note`: why nothing of it is shown ('' for a record): a control batch, or one that cannot be opened.
    """

    offset: int
    timestamp_ms: int
    key: Shortened | None
    value: Shortened | None
    headers: int
    crc: int
    note: str = ""


class LogExcerpt(NamedTuple):
    """`start`, `end`: where the partition's log began and ended when it was asked."""

    start: int
    end: int
    records: Sequence[RecordExcerpt]


async def read_excerpt(
    cluster: Cluster, topic: str, partition: int, first: int | None, count: int, most_bytes: int
) -> LogExcerpt:
    """The first records from an offset on.

    Args:
        first: where the excerpt begins, or with the log, if that begins later; None: `count` offsets before its end.
        count: at most so many records, 1 to `MOST_RECORDS`.
        most_bytes: of each key and value, 0 to `MOST_BYTES`.

    Raises:
        BrokerError, ClusterUnavailable: the partition cannot be read.
        OldFormat: records of format v0 or v1.
    """
    bounds = [(await list_offsets(cluster, {topic: {partition: at}}))[topic, partition] for at in (EARLIEST, LATEST)]
    start, end = (each.offset for each in bounds)
    first = max(start, end - count if first is None else first)
    reader = RangeReader(
        cluster,
        topic,
        partition,
        first,
        end,
        read_committed=False,
        with_last=True,
        fetch_bytes=_FETCH_BYTES,
        patience_s=cluster.config.api_timeout_s,
    )
    found: list[RecordExcerpt] = []
    read = 0
    while len(found) < count and read < _READ_BYTES:
        chunk = await _next(reader)
        if chunk is None:
            break
        read += len(chunk.records)
        found += await asyncio.to_thread(_opened, chunk, range(first, end), count - len(found), most_bytes)
    return LogExcerpt(start, end, found)


async def _next(reader: RangeReader) -> BatchChunk | None:
    """None at the end, and where retention has just taken what was to be read."""
    try:
        return await reader.next()
    except BrokerError as exc:
        if exc.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        return None


def _opened(chunk: BatchChunk, offsets: range, count: int, most_bytes: int) -> list[RecordExcerpt]:
    """Of a chunk the first `count` records at these offsets."""
    found: list[RecordExcerpt] = []
    for header, (at, end) in zip(chunk.headers, pairwise(chunk.bounds), strict=True):
        batch = chunk.records[at:end]
        if header.is_control:
            found.append(_unopened(header, "a control batch: it ends a transaction"))
            continue
        try:
            for record in read_records(header, batch, _INFLATED):
                if record.offset in offsets:
                    found.append(_shortened(record, most_bytes))
                if len(found) >= count:
                    return found
        except MalformedFrame as exc:
            found.append(_unopened(header, f"not opened: {exc}"))
    return found[:count]


def _unopened(header: BatchHeader, note: str) -> RecordExcerpt:
    return RecordExcerpt(header.base_offset, header.max_timestamp, None, None, 0, 0, note)


def _shortened(record: Record, most_bytes: int) -> RecordExcerpt:
    return RecordExcerpt(
        record.offset,
        record.timestamp_ms,
        Shortened.of(record.key, most_bytes),
        Shortened.of(record.value, most_bytes),
        len(record.headers),
        _crc(record),
    )


def _crc(record: Record) -> int:
    """Lengths go in, too, so that what moves from one field to the next is seen; null is no length."""
    fields = [record.key, record.value, *(part for name, held in record.headers for part in (name.encode(), held))]
    found = 0
    for field in fields:
        found = crc32c(b"-" if field is None else b"%d:%b" % (len(field), field), found)
    return found
