"""The writer of `kafka-batches`: appends rows of batches to the target by the mirror's rule.

Each batch is appended at its own offset, under the mirror's producer id, with that offset as sequence number. So it
does not matter how often, or by whom, a range is written: a task that is tried again, a second one beside it, or the
gateway's own engine finds what is there already and goes on behind it.

Rows of one partition must come in one task and in order, as the reader gives them. Rows that do not fit end the query
with topic, partition and offset. Rows of `kafka-ranges` are written too: then the task fetches the batches itself.

Below: the writer's options, what one task does with its rows, and the writer as Spark knows it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from gateway.jobs.attempts.client import Attempt
from gateway.jobs.attempts.wire import Address
from gateway.jobs.kafka import PREFIX, Loop
from gateway.jobs.schemas import BATCHES, RANGES
from gateway.jobs.source.append import PartitionAppend
from gateway.jobs.source.clusters import AppendFailed, Clusters
from gateway.jobs.source.copy import RangeCopy
from gateway.jobs.source.mirrors import MirrorSpec, from_json
from gateway.jobs.source.options import check_properties
from gateway.jobs.source.ranges import OffsetRange
from gateway.jobs.source.segments import MapPublisher, NoMap, Segment, WriteReport, WriterReport, merge, total
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.partition.rules.throttle import Throttle

SOURCE_PREFIX: Final = "source." + PREFIX
MIRRORS: Final = "mirrors"
REPORT: Final = "report"
THROTTLE: Final = "throttleBytesPerSecond"
ATTEMPTS: Final = "attemptsToken"
"""Spark hides the values of options that are named so."""

_OF_SPARK: Final = ("checkpointlocation", "queryname")  # a streaming query's own options come along


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Where to append, and as whom.

    Attributes:
        target: Kafka client properties of the cluster that is written.
        source: of the cluster that the batches come from, to hold the target's log against the source's; empty when
            they do not come from a cluster.
        mirrors: by source topic.
        throttle_bytes_per_s: of each task that copies ranges; 0 for none.
        attempts: where tasks ask whether they may append (`gateway.jobs.attempts`); None for writes that Spark alone
            keeps apart.
        report: a file on the driver that gets the report as JSON when all tasks are done; "" for none.
    """

    target: Mapping[str, str]
    mirrors: Mapping[str, MirrorSpec]
    source: Mapping[str, str]
    throttle_bytes_per_s: int = 0
    attempts: Address | None = None
    report: str = ""


def parse_write(options: Mapping[str, str]) -> WriteOptions:
    """Read the options of the writer, whose names are taken in any case.

    Raises:
        ValueError: one line that names an unknown option, a bad value, or one that is missing.
    """
    given = {name.lower(): value for name, value in options.items()}
    target = {name[len(PREFIX) :]: value for name, value in given.items() if name.startswith(PREFIX)}
    source = {name[len(SOURCE_PREFIX) :]: value for name, value in given.items() if name.startswith(SOURCE_PREFIX)}
    others = [name for name in given if not name.startswith((PREFIX, SOURCE_PREFIX))]
    unknown = [name for name in others if name not in (MIRRORS, REPORT, THROTTLE.lower(), ATTEMPTS.lower(), *_OF_SPARK)]
    if unknown:
        known = f"{MIRRORS}, {REPORT}, {THROTTLE}, {PREFIX}* and {SOURCE_PREFIX}*"
        raise ValueError(f"{unknown[0]}: unknown option; known: {known}")
    check_properties(target, PREFIX)
    if source:
        check_properties(source, SOURCE_PREFIX)
    if MIRRORS not in given:
        raise ValueError(f"{MIRRORS}: missing; it says as which mirror to write")
    try:
        mirrors = from_json(given[MIRRORS])
    except ValueError as exc:
        raise ValueError(f"{MIRRORS}: {exc}") from None
    throttle = given.get(THROTTLE.lower(), "0")
    if not throttle.isdecimal():
        raise ValueError(f"{THROTTLE}: {throttle!r} is not a whole number")
    return WriteOptions(
        target=target,
        source=source,
        mirrors=mirrors,
        throttle_bytes_per_s=int(throttle),
        attempts=Address.parse(given[ATTEMPTS.lower()]) if ATTEMPTS.lower() in given else None,
        report=given.get(REPORT, ""),
    )


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

    def finish(self) -> WriterReport:
        """Wait for the target, and tell what was done. Raises AppendFailed."""
        appends = self._appends.values()
        for append in appends:
            self._loop.run(append.finish())
            append.close()
        segments = [segment for of in self._segments.values() for segment in of]
        return WriterReport(merge(segments), sum(one.records for one in appends), sum(one.bytes for one in appends))

    def copy(self, ranges: Sequence[OffsetRange]) -> WriterReport:
        """Copy ranges of the source. What failed is in the answer. Raises AttemptFenced."""
        if not ranges:
            return WriterReport()
        attempt = self._attempt()
        clusters = self._connected(attempt)
        source = clusters.source
        if source is None:
            raise ValueError("to copy ranges the source is needed")
        throttle = Throttle(self._options.throttle_bytes_per_s, time.monotonic())
        planned = [(self._mirror(one.topic, one.partition, one.start), one) for one in ranges]

        async def copy() -> list[WriterReport]:
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


_BATCH_COLUMNS: Final = ("topic", "partition", "base_offset", "last_offset", "batch")
_RANGE_COLUMNS: Final = tuple(RANGES.names)


class BatchesWriter(DataSourceArrowWriter):
    """Of a batch query. It is sent to the executors as it is."""

    def __init__(self, options: WriteOptions, schema: StructType, publisher: MapPublisher | None = None) -> None:
        self._copies_ranges = "batch" not in schema.names and _RANGE_COLUMNS[-1] in schema.names
        _check(schema, *((RANGES, _RANGE_COLUMNS) if self._copies_ranges else (BATCHES, _BATCH_COLUMNS)))
        if self._copies_ranges and not options.source:
            raise ValueError(f"to copy ranges the source is needed: {SOURCE_PREFIX}bootstrap.servers")
        self.options = options
        self._publisher = publisher or NoMap()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task: append the rows, or what they say. Raises AppendFailed, and what the source's errors are."""
        with Loop() as loop:
            context = TaskContext.get()
            task = WriteTask(self.options, loop, None if context is None else context.taskAttemptId())
            if self._copies_ranges:
                return task.copy([one for rows in iterator for one in _ranges(rows)])
            for rows in iterator:
                task.add(rows)
            return task.finish()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, after all tasks: publish the map, then report."""
        report = WriteReport.of(messages)
        self._publisher.publish(report.segments)
        if self.options.report:
            report.save(self.options.report)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was appended stays: the next write goes on behind it."""


class StreamBatchesWriter(BatchesWriter, DataSourceStreamArrowWriter):
    """Of a streaming query: a micro-batch that is repeated finds its batches on the target."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:
        """As of a batch query."""
        super().commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:
        """As of a batch query."""
        super().abort(messages)


def _ranges(rows: pa.RecordBatch) -> Iterator[OffsetRange]:
    for row in rows.select(list(_RANGE_COLUMNS)).to_pylist():
        yield OffsetRange(*(row[name] for name in _RANGE_COLUMNS))


def _check(schema: StructType, table: StructType, names: Sequence[str]) -> None:
    for name in names:
        if name not in schema.names or schema[name].dataType != table[name].dataType:
            raise ValueError(f"rows to write need the column {name} of kafka-batches, or of kafka-ranges")
