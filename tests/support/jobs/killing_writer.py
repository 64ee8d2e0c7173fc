"""`kafka-batches` as a data source whose first attempt of each task dies in the middle, with appends in flight."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from gateway.jobs.source.append import PartitionAppend
from gateway.jobs.source.batches import KafkaBatches
from gateway.jobs.source.writer import BatchesWriter, parse_write


class KilledBatches(KafkaBatches):
    """Registered by the test that wants it."""

    @classmethod
    def name(cls) -> str:
        return "killed-batches"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return KillingWriter(parse_write(self.options), schema)


class KillingWriter(BatchesWriter):
    """Attempt 0 is killed when it has queued its second lot of batches, before it has waited for all answers."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() > 0:
            return super().write(iterator)
        lots = 0
        append = PartitionAppend.append

        async def append_or_die(self: PartitionAppend, records: memoryview, following: int) -> None:
            nonlocal lots
            lots += 1
            await append(self, records, following)
            if lots == 2:
                os.kill(os.getpid(), signal.SIGKILL)

        PartitionAppend.append = append_or_die  # type: ignore[method-assign]  # in a process that will not live
        super().write(iterator)
        raise AssertionError("too few rows to be killed in the middle of them")
