"""`kafka-batches`: the record batches of topics as rows (`gateway.jobs.schemas.BATCHES`), not decoded.

    kafka = {"kafka.bootstrap.servers": "host:9092", "subscribe": "orders"}
    spark.read.format("kafka-batches").options(**kafka).load()

Options have the names of Spark's own Kafka source (`gateway.jobs.source.options`). A column that is not wanted costs
nothing when the schema is given: `.schema(columns(BATCHES, "topic", "partition", "digest"))`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gateway.jobs.kafka import Loop, ask
from gateway.jobs.schemas import BATCHES
from gateway.jobs.source.options import SourceOptions, parse
from gateway.jobs.source.ranges import OffsetRange, plan_ranges, read_chunks
from gateway.jobs.source.stream import RangeStreamReader
from gateway.jobs.source.writer import BatchesWriter, StreamBatchesWriter, parse_write
from gateway.kafka.logs.range_reader import BatchChunk
from protocol.batch.header import batch_digest

FORMAT: Final = "kafka-batches"
SPECULATES: Final = "spark.speculation is true: attempts of a task would append beside each other; turn it off"
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class KafkaBatches(DataSource):
    """The data source. Spark makes one per query, from its options."""

    @classmethod
    def name(cls) -> str:
        """For `format(…)`."""
        return FORMAT

    def schema(self) -> StructType:
        """All columns, unless the query names some."""
        return BATCHES

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of a batch query."""
        return BatchesReader(parse(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Of a streaming query."""
        return RangeStreamReader(parse(self.options), check_columns(schema, BATCHES), read_batches)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Of a batch query. Raises ValueError for mode overwrite: nothing is ever overwritten."""
        if overwrite:
            raise ValueError("mode overwrite: batches can only be appended; write with mode append")
        return BatchesWriter(parse_write(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Of a streaming query."""
        return StreamBatchesWriter(parse_write(self.options), schema)


class SpeculatingBatches(KafkaBatches):
    """Of a session whose tasks may run twice at the same time: read only."""

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Raises ValueError."""
        raise ValueError(SPECULATES)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Raises ValueError."""
        raise ValueError(SPECULATES)


class BatchesReader(DataSourceReader):
    """Reads ranges as Arrow batches. It is sent to the executors as it is."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = check_columns(schema, BATCHES)

    def partitions(self) -> Sequence[InputPartition]:
        """One range per Kafka partition, or more with minPartitions."""
        return ask(self._options.properties, lambda cluster: plan_ranges(cluster, self._options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, in order."""
        return read_batches(self._options, self._schema, partition)


def read_batches(options: SourceOptions, schema: StructType, wanted: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one range; of a query without any range (Spark then asks for one that is none): no rows."""
    if not isinstance(wanted, OffsetRange):
        return
    arrow = to_arrow_schema(schema, timezone="UTC")
    with Loop() as loop:
        for chunk in read_chunks(options, wanted, loop):
            yield chunk_rows(chunk, wanted.topic, wanted.partition, arrow)


def chunk_rows(chunk: BatchChunk, topic: str, partition: int, schema: pa.Schema) -> pa.RecordBatch:
    """A chunk as rows. The bytes of the batches are not copied."""
    count = len(chunk.headers)
    columns = []
    for field in schema:
        if field.name == "topic":
            columns.append(pa.repeat(pa.scalar(topic, field.type), count))
        elif field.name == "partition":
            columns.append(pa.repeat(pa.scalar(partition, field.type), count))
        else:
            columns.append(_COLUMNS[field.name](chunk, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def check_columns(schema: StructType, table: StructType) -> StructType:
    """The schema of a query. Raises ValueError that names a column that the table does not have."""
    known = {field.name: field.dataType for field in table}
    for field in schema:
        if known.get(field.name) != field.dataType:
            raise ValueError(f"schema: there is no column {field.name} {field.dataType.simpleString()}")
    return schema


def _of_headers(value: Callable[[Any], object]) -> Callable[[BatchChunk, pa.DataType], pa.Array]:
    return lambda chunk, kind: pa.array([value(header) for header in chunk.headers], kind)


def _batch(chunk: BatchChunk, _: pa.DataType) -> pa.Array:
    bounds = pa.py_buffer(array("i", chunk.bounds))
    return pa.Array.from_buffers(pa.binary(), len(chunk.headers), [None, bounds, pa.py_buffer(chunk.records)])


def _digest(chunk: BatchChunk, kind: pa.DataType) -> pa.Array:
    records, bounds = chunk.records, chunk.bounds
    digests = [
        batch_digest(records[low:high], header)
        for header, (low, high) in zip(chunk.headers, pairwise(bounds), strict=True)
    ]
    return pa.array(digests, kind)


_COLUMNS: Final[dict[str, Callable[[BatchChunk, pa.DataType], pa.Array]]] = {
    "base_offset": _of_headers(lambda header: header.base_offset),
    "last_offset": _of_headers(lambda header: header.last_offset),
    "record_count": _of_headers(lambda header: header.count),
    "max_timestamp": _of_headers(lambda header: header.max_timestamp),
    "codec": _of_headers(lambda header: CODECS[header.codec]),
    "producer_id": _of_headers(lambda header: header.producer_id),
    "is_transactional": _of_headers(lambda header: header.is_transactional),
    "is_control": _of_headers(lambda header: header.is_control),
    "is_aborted": lambda chunk, kind: pa.array(chunk.aborted, kind),
    "leader_epoch": _of_headers(lambda header: header.partition_leader_epoch),
    "batch": _batch,
    "digest": _digest,
}
