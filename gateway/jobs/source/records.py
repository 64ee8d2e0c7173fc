"""`kafka-records`: the records of topics as rows (`gateway.jobs.schemas.RECORDS`), to query, filter or keep as files.

    kafka = {"kafka.bootstrap.servers": "host:9092", "subscribe": "orders"}
    spark.read.format("kafka-records").options(**kafka).load().write.parquet("orders.parquet")

Transaction markers and the data of aborted transactions are left out; `kafka.isolation.level=read_uncommitted` reads
beyond open transactions, and aborted data too. Options are those of `kafka-batches`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gateway.jobs.kafka import Loop, ask
from gateway.jobs.schemas import RECORDS, columns
from gateway.jobs.source.batches import check_columns
from gateway.jobs.source.options import SourceOptions, parse
from gateway.jobs.source.ranges import OffsetRange, plan_ranges, read_chunks
from gateway.jobs.source.stream import RangeStreamReader
from gateway.kafka.logs.range_reader import BatchChunk
from protocol.batch.record_reader import Record, read_records

FORMAT: Final = "kafka-records"
_YEAR_1_MS: Final = -62_135_596_800_000
_YEAR_9999_MS: Final = 253_402_300_799_999
_ROWS: Final = 4096  # of one Arrow batch

Row = tuple[int, Record]
"""Timestamp type (0 CreateTime, 1 LogAppendTime) and record."""


class KafkaRecords(DataSource):
    """The data source. Spark makes one per query, from its options."""

    @classmethod
    def name(cls) -> str:
        """For `format(…)`."""
        return FORMAT

    def schema(self) -> StructType:
        """All columns, unless the query names some, or includeHeaders is false."""
        headers = parse(self.options).headers
        return RECORDS if headers else columns(RECORDS, *(name for name in RECORDS.names if name != "headers"))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of a batch query."""
        return RecordsReader(parse(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Of a streaming query."""
        return RangeStreamReader(parse(self.options), check_columns(schema, RECORDS), read_rows)


class RecordsReader(DataSourceReader):
    """Reads ranges as Arrow batches. It is sent to the executors as it is."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = check_columns(schema, RECORDS)

    def partitions(self) -> Sequence[InputPartition]:
        """One range per Kafka partition, or more with minPartitions."""
        return ask(self._options.properties, lambda cluster: plan_ranges(cluster, self._options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, in order."""
        return read_rows(self._options, self._schema, partition)


def read_rows(options: SourceOptions, schema: StructType, wanted: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one range; none of a query without any range."""
    if not isinstance(wanted, OffsetRange):
        return
    arrow = to_arrow_schema(schema, timezone="UTC")
    with Loop() as loop:
        for chunk in read_chunks(options, wanted, loop, with_last=True):
            records = chunk_records(chunk, wanted, read_committed=options.read_committed)
            while rows := list(islice(records, _ROWS)):
                yield as_rows(rows, wanted.topic, wanted.partition, arrow)


def chunk_records(chunk: BatchChunk, wanted: OffsetRange, *, read_committed: bool) -> Iterator[Row]:
    """The records of a chunk that an application would see. A batch may lie across either border of the range."""
    for index, header in enumerate(chunk.headers):
        if header.is_control or (read_committed and chunk.aborted[index]):
            continue
        kind = int(header.is_log_append_time)
        for record in read_records(header, chunk.records[chunk.bounds[index] : chunk.bounds[index + 1]]):
            if wanted.start <= record.offset < wanted.end:
                yield kind, record


def as_rows(rows: Sequence[Row], topic: str, partition: int, schema: pa.Schema) -> pa.RecordBatch:
    """Records as an Arrow batch."""
    found = []
    for field in schema:
        if field.name == "topic":
            found.append(pa.repeat(pa.scalar(topic, field.type), len(rows)))
        elif field.name == "partition":
            found.append(pa.repeat(pa.scalar(partition, field.type), len(rows)))
        else:
            value = _VALUES[field.name]
            found.append(pa.array([value(kind, record) for kind, record in rows], field.type))
    return pa.RecordBatch.from_arrays(found, schema=schema)


def micros(timestamp_ms: int) -> int:
    """A record's timestamp for Spark, whose type goes from year 1 to 9999: producers write anything."""
    return min(max(timestamp_ms, _YEAR_1_MS), _YEAR_9999_MS) * 1000


def _headers(_: int, record: Record) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": value} for key, value in record.headers] or None


_VALUES: Final[dict[str, Callable[[int, Record], Any]]] = {
    "key": lambda _, record: record.key,
    "value": lambda _, record: record.value,
    "offset": lambda _, record: record.offset,
    "timestamp": lambda _, record: micros(record.timestamp_ms),
    "timestampType": lambda kind, _: kind,
    "headers": _headers,
}
