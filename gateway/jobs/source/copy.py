"""Ranges copied from broker to broker within one task: fetched, and appended by the mirror's rule.

All ranges of a task are copied at the same time on one event loop. So a Produce request carries a batch of each of
several partitions, which is what makes small batches cheap: a broker takes one batch per partition and request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from gateway.jobs.lost_records import LostRange
from gateway.jobs.source.append import PartitionAppend
from gateway.jobs.source.clusters import AppendFailed, Clusters
from gateway.jobs.source.mirrors import MirrorSpec
from gateway.jobs.source.ranges import OffsetRange
from gateway.jobs.source.segments import CopyFailure, Segment, WriterReport
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, LogTruncated, NetError
from gateway.kafka.logs.range_reader import FETCH_BYTES, BatchChunk, RangeReader
from gateway.mirror.partition.rules.throttle import Throttle
from protocol.batch.header import OldFormat
from protocol.errors import ProtocolError

AT_ONCE: Final = 16
"""Ranges of one task; each holds up to some MB."""


_FAILURES: Final = (AppendFailed, NetError, ProtocolError, OldFormat, OSError, TimeoutError, ValueError)


class RangeCopy:
    """Copies ranges of a source.

    Args:
        throttle: of the task.
    """

    def __init__(self, source: Cluster, clusters: Clusters, throttle: Throttle) -> None:
        self._source = source
        self._clusters = clusters
        self._throttle = throttle
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def run(self, ranges: Sequence[tuple[MirrorSpec, OffsetRange]]) -> list[WriterReport]:
        """Copy all. What goes wrong with one is in what it has written, and ends no other."""
        return await asyncio.gather(*(self._in_turn(*one) for one in ranges))

    async def _in_turn(self, mirror: MirrorSpec, wanted: OffsetRange) -> WriterReport:
        try:
            return await self._one(mirror, wanted)
        except _FAILURES as exc:
            return _failed(wanted, exc)

    async def _one(self, mirror: MirrorSpec, wanted: OffsetRange) -> WriterReport:
        async with self._slots:
            append = PartitionAppend(mirror, wanted.partition, wanted.start, self._clusters)
            try:
                await append.begin()
                first = append.position
                if append.has_map:
                    await self._follow(append, wanted)
                else:
                    await self._copy(append, wanted)
            except _FAILURES as exc:
                return _failed(wanted, exc, append.lost)
            finally:
                append.close()
        segments = append.segments(first) if append.translates else (_equal(mirror, wanted),)
        return WriterReport(segments, append.records, append.bytes, lost=tuple(append.lost))

    async def _copy(self, append: PartitionAppend, wanted: OffsetRange) -> None:
        # Where this attempt begins: with the last batch that the target has, to hold it against the source's.
        # What the batches are, the partition's mirror looks at.
        first = max(wanted.start, append.position - 1)
        reader = self._reader(wanted, first, append.runner.cursor.last_epoch, checked=False)
        while (chunk := await reader.next()) is not None:
            await append.append(chunk.records, chunk.headers[-1].next_offset)
            await self._pace(chunk)
        await append.finish()
        self._check_end(append, wanted)

    async def _follow(self, append: PartitionAppend, wanted: OffsetRange) -> None:
        """With an offset map: breakpoints are durable before the batches that need them. Each task writes its own, as
        the engine does.

        The source is read from where the partition says, again whenever another appender was found at work.
        """
        reader: RangeReader | None = None
        while True:
            at, chunk = append.fetch_offset, None
            if at < wanted.end:
                if reader is None or reader.position != at:
                    reader = self._reader(wanted, at, append.runner.cursor.last_epoch)
                try:
                    chunk = await reader.next()
                except BrokerError as exc:
                    if not await append.refused(exc.code):
                        raise
                    continue
            if chunk is not None:
                await append.offer(chunk, at, wanted.end)
                await self._pace(chunk)
                continue
            await append.finish()
            if append.fetch_offset == at:  # what is left up to the end, if anything, has no records
                break
        if not append.translates:
            self._check_end(append, wanted)

    def _check_end(self, append: PartitionAppend, wanted: OffsetRange) -> None:
        if append.position < wanted.end:
            topic, partition = append.runner.key
            raise AppendFailed(
                f"{topic}-{partition} at target offset {append.position}: the source has no more records, although its "
                f"range ends at {wanted.end}"
            )

    def _reader(self, wanted: OffsetRange, start: int, last_epoch: int, *, checked: bool = True) -> RangeReader:
        return RangeReader(
            self._source,
            wanted.topic,
            wanted.partition,
            start,
            wanted.end,
            fetch_bytes=self._throttle.limit(FETCH_BYTES),
            checked=checked,
            last_epoch=last_epoch,
        )

    async def _pace(self, chunk: BatchChunk) -> None:
        self._throttle.spend(len(chunk.records))
        wait_s = self._throttle.wait_s(time.monotonic())
        if wait_s:
            await asyncio.sleep(wait_s)


def _failed(wanted: OffsetRange, error: Exception, lost: Sequence[LostRange] = ()) -> WriterReport:
    """`lost`: what it went on without before it failed."""
    why = str(error) or type(error).__name__
    failure = CopyFailure(wanted.topic, wanted.partition, why, final=isinstance(error, LogTruncated))
    return WriterReport(failed=(failure,), lost=tuple(lost))


def _equal(mirror: MirrorSpec, wanted: OffsetRange) -> Segment:
    return Segment(mirror.mirror_topic, wanted.partition, wanted.start, wanted.start, wanted.size)
