"""What one task of the writer does with its rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from gateway.jobs.attempts.client import Attempt
from gateway.jobs.kafka import Loop
from gateway.jobs.source.append import PartitionAppend
from gateway.jobs.source.clusters import AppendFailed, Clusters
from gateway.jobs.source.copy import RangeCopy
from gateway.jobs.source.mirrors import MirrorSpec
from gateway.jobs.source.ranges import OffsetRange
from gateway.jobs.source.segments import Segment, Written, merge, total
from gateway.jobs.source.write_options import WriteOptions
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.partition.rules.throttle import Throttle


class WriteTask:
    """The partitions that one task writes: one, as the reader makes them; more after a coalesce.

    Args:
        number: Spark's of this attempt (`taskAttemptId`); None when nobody is to be asked (`gateway.jobs.attempts`).
    """

    def __init__(self, options: WriteOptions, loop: Loop, number: int | None = None) -> None:
        self._number = number
        self._options = options
        self._loop = loop
        self._clusters: Clusters | None = None
        self._appends: dict[TopicPartition, PartitionAppend] = {}
        self._segments: dict[TopicPartition, tuple[Segment, ...]] = {}

    def add(self, rows: pa.RecordBatch) -> None:
        """Append some rows, or at least queue them. Raises AppendFailed."""
        topics, partitions = rows["topic"].to_pylist(), rows["partition"].to_pylist()
        begin = 0
        for index in range(1, rows.num_rows + 1):
            if index == rows.num_rows or (topics[index], partitions[index]) != (topics[begin], partitions[begin]):
                self._add_of_one((topics[begin], partitions[begin]), rows.slice(begin, index - begin))
                begin = index

    def finish(self) -> Written:
        """Wait for the target, and tell what was done. Raises AppendFailed."""
        appends = self._appends.values()
        for append in appends:
            self._loop.run(append.finish())
            append.close()
        segments = [segment for of in self._segments.values() for segment in of]
        return Written(merge(segments), sum(one.records for one in appends), sum(one.bytes for one in appends))

    def copy(self, ranges: Sequence[OffsetRange]) -> Written:
        """Copy ranges of the source. What failed is in the answer. Raises AttemptFenced."""
        if not ranges:
            return Written()
        attempt = self._attempt()
        clusters = self._connected(attempt)
        source = clusters.source
        if source is None:
            raise ValueError("to copy ranges the source is needed")
        throttle = Throttle(self._options.throttle_bytes_per_s, time.monotonic())
        planned = [(self._mirror(one.topic, one.partition, one.start), one) for one in ranges]

        async def copy() -> list[Written]:
            return await RangeCopy(source, clusters, throttle).run(planned)

        if attempt is None:
            return total(self._loop.run(copy()))
        keys = [(one.topic, one.partition) for one in ranges]
        return total(self._loop.run(attempt.guard(keys, copy)))

    def _attempt(self) -> Attempt | None:
        if self._options.attempts is None or self._number is None:
            return None
        return Attempt(self._options.attempts, self._number)

    def _add_of_one(self, key: TopicPartition, rows: pa.RecordBatch) -> None:
        first, last = rows["base_offset"][0].as_py(), rows["last_offset"][-1].as_py()
        append = self._appends.get(key) or self._begin(key, first)
        self._loop.run(append.append(batch_bytes(rows["batch"]), last + 1))
        segment = Segment(append.runner.key[0], key[1], first, first, last + 1 - first)
        self._segments[key] = merge([*self._segments.get(key, ()), segment])

    def _begin(self, key: TopicPartition, first: int) -> PartitionAppend:
        mirror, clusters = self._mirror(*key, first), self._connected()
        if mirror.is_translated:
            raise AppendFailed(
                f"{mirror.mirror_topic}-{key[1]} at offset {first}: its offsets differ on the two clusters; rows of "
                "batches cannot be appended to it, rows of kafka-ranges can"
            )

        async def begin() -> PartitionAppend:
            append = PartitionAppend(replace(mirror, link=""), key[1], first, clusters)  # rows cannot be read again
            await append.begin()
            return append

        append = self._appends[key] = self._loop.run(begin())
        return append

    def _mirror(self, topic: str, partition: int, offset: int) -> MirrorSpec:
        mirror = self._options.mirrors.get(topic)
        if mirror is None or not 0 <= partition < len(mirror.starts):
            raise AppendFailed(f"{topic}-{partition} at offset {offset}: no mirror of it was named")
        return mirror

    def _connected(self, attempt: Attempt | None = None) -> Clusters:
        if self._clusters is None:
            loop, options = self._loop, self._options
            target = loop.connect(options.target)
            source = loop.connect(options.source) if options.source else None

            async def make() -> Clusters:
                if attempt is None:
                    return Clusters.of(target, source)
                return Clusters.of(target, source, attempt.may_append, attempt.tell_lost)

            self._clusters = loop.run(make())
            loop.on_close(self._clusters.tasks.close)
            if attempt is not None:
                attempt.renewed = self._clusters.pump
        return self._clusters


def batch_bytes(column: pa.Array) -> memoryview:
    """The bytes of consecutive rows of a binary column, as they lie in memory. Raises ValueError for a null."""
    if column.null_count:
        raise ValueError("a row without its batch")
    _, bounds, data = column.buffers()
    bounds = memoryview(bounds).cast("q" if pa.types.is_large_binary(column.type) else "i")
    return memoryview(data)[bounds[column.offset] : bounds[column.offset + len(column)]]
