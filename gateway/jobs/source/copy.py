"""Ranges copied from broker to broker within one task: fetched, and appended by the mirror's rule.

All ranges of a task are copied at the same time on one event loop. So a Produce request carries a batch of each of
several partitions, which is what makes small batches cheap: a broker takes one batch per partition and request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from gateway.domain.throttle import Throttle
from gateway.jobs.source.append import AppendFailed, Clusters, PartitionAppend
from gateway.jobs.source.mirrors import MirrorSpec
from gateway.jobs.source.ranges import OffsetRange
from gateway.jobs.source.segments import Segment, Written
from gateway.net.cluster import Cluster
from gateway.net.range_reader import FETCH_BYTES, RangeReader

AT_ONCE: Final = 16
"""Ranges of one task; each holds up to some MB."""


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

    async def run(self, ranges: Sequence[tuple[MirrorSpec, OffsetRange]]) -> list[Written]:
        """Copy all; the first failure ends the others. Raises as `RangeReader.next` and `PartitionAppend` do."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._in_turn(*one)) for one in ranges]
        except ExceptionGroup as exc:
            raise exc.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _in_turn(self, mirror: MirrorSpec, wanted: OffsetRange) -> Written:
        async with self._slots:
            return await self._copy(mirror, wanted)

    async def _copy(self, mirror: MirrorSpec, wanted: OffsetRange) -> Written:
        append = PartitionAppend(mirror, wanted.partition, wanted.start, self._clusters)
        await append.begin()
        # Where this attempt begins: with the last batch that the target has, to hold it against the source's.
        start = max(wanted.start, append.position - 1)
        fetch_bytes = self._throttle.limit(FETCH_BYTES)
        reader = RangeReader(self._source, wanted.topic, wanted.partition, start, wanted.end, fetch_bytes=fetch_bytes)
        while (chunk := await reader.next()) is not None:
            await append.append(chunk.records, chunk.headers[-1].next_offset)
            self._throttle.spend(len(chunk.records))
            wait_s = self._throttle.wait_s(time.monotonic())
            if wait_s:
                await asyncio.sleep(wait_s)
        await append.finish()
        append.close()
        if append.position < wanted.end:
            where = f"{mirror.mirror_topic}-{wanted.partition} at target offset {append.position}"
            raise AppendFailed(f"{where}: the source has no more records, although its range ends at {wanted.end}")
        segment = Segment(mirror.mirror_topic, wanted.partition, wanted.start, wanted.start, wanted.size)
        return Written((segment,), append.records, append.bytes)
