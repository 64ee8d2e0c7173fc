"""The writer of `kafka-batches`: appends rows of batches to the target by the mirror's rule.

Each batch is appended at its own offset, under the mirror's producer id, with that offset as sequence number. So it
does not matter how often, or by whom, a range is written: a task that is tried again, a second one beside it, or the
gateway's own engine finds what is there already and goes on behind it.

Rows of one partition must come in one task and in order, as the reader gives them. Rows that do not fit end the query
with topic, partition and offset. Rows of `kafka-ranges` are written too: then the task fetches the batches itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from gateway.jobs.kafka import Loop
from gateway.jobs.schemas import BATCHES, RANGES
from gateway.jobs.source.ranges import OffsetRange
from gateway.jobs.source.segments import MapPublisher, NoMap, WriteReport
from gateway.jobs.source.write_options import SOURCE_PREFIX, WriteOptions
from gateway.jobs.source.write_task import WriteTask

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
