"""Reads one range in a task: chunks of batches, one after the other, on the task's own event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from gateway.jobs.kafka import Loop
from gateway.jobs.source.options import SourceOptions
from gateway.jobs.source.ranges import OffsetRange
from gateway.kafka.logs.range_reader import Chunk, RangeReader
from gateway.mirror.partition.rules.throttle import Throttle


def read_chunks(options: SourceOptions, wanted: OffsetRange, loop: Loop, *, with_last: bool = False) -> Iterator[Chunk]:
    """The batches of a range, also the one across its end if asked for.

    Raises as `RangeReader.next` does, with topic, partition and offset.
    """
    throttle = Throttle(options.throttle_bytes_per_s, time.monotonic())
    reader = RangeReader(
        loop.connect(options.properties),
        wanted.topic,
        wanted.partition,
        wanted.start,
        wanted.end,
        read_committed=options.read_committed,
        with_last=with_last,
        fetch_bytes=throttle.limit(options.fetch_bytes),
    )
    while (chunk := loop.run(reader.next())) is not None:
        yield chunk
        throttle.spend(len(chunk.records))
        wait_s = throttle.wait_s(time.monotonic())
        if wait_s:
            loop.run(asyncio.sleep(wait_s))
