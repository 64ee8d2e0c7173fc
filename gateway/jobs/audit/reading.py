"""Pieces of partitions as tables, from this project's data sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from gateway.jobs.audit.pieces import Partition, Side, Span
from gateway.jobs.audit.schemas import BATCH_COLUMNS, RECORD_COLUMNS
from gateway.jobs.kafka import as_options
from gateway.jobs.schemas import DIGESTS

_LIMITS = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("_low", LongType()),
        StructField("_high", LongType()),
        StructField("_topic", StringType()),
    ]
)
_NAMES = StructType([StructField("topic", StringType()), StructField("_topic", StringType())])


@dataclass(frozen=True, slots=True)
class Reader:
    """Where to read, in how many tasks at least, and what topics are called there (topic -> its name, if another)."""

    spark: SparkSession
    properties: Mapping[str, str]
    tasks: int
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, topic: str) -> str:
        """The topic's name on this cluster."""
        return self.names.get(topic, topic)


def read_batches(reader: Reader, sides: Mapping[Partition, Side]) -> DataFrame:
    """Batches (BATCH_COLUMNS) with a wanted record."""
    ranges = {key: side.for_batches() for key, side in sides.items()}
    found = _read(reader, "kafka-batches", BATCH_COLUMNS, ranges)
    return _joined(reader, found, sides).where(F.col("base_offset") < F.col("_high")).select(*BATCH_COLUMNS.names)


def read_digests(reader: Reader, sides: Mapping[Partition, Side]) -> DataFrame:
    """The blocks (DIGESTS) of what is wanted. A batch that the end lies in is left out."""
    found = _read(reader, "kafka-digests", DIGESTS, {key: side.wanted for key, side in sides.items()})
    if not reader.names:
        return found
    names = reader.spark.createDataFrame([(reader.name(topic), topic) for topic, _ in sorted(sides)], _NAMES)
    joined = found.join(F.broadcast(names.distinct()), "topic").drop("topic").withColumnRenamed("_topic", "topic")
    return joined.select(*DIGESTS.names)


def read_records(reader: Reader, sides: Mapping[Partition, tuple[Side, Span]]) -> DataFrame:
    """Wanted records (RECORD_COLUMNS) within a range for each partition."""
    found = _read(reader, "kafka-records", RECORD_COLUMNS, {key: span for key, (_, span) in sides.items()})
    limited = _joined(reader, found, {key: side for key, (side, _) in sides.items()})
    inside = (F.col("offset") >= F.col("_low")) & (F.col("offset") < F.col("_high"))
    return limited.where(inside).select(*RECORD_COLUMNS.names)


def _joined(reader: Reader, found: DataFrame, sides: Mapping[Partition, Side]) -> DataFrame:
    """Rows with the limits of their side, under the topic's name of the source."""
    rows = [(reader.name(topic), index, *side.wanted, topic) for (topic, index), side in sorted(sides.items())]
    limits = F.broadcast(reader.spark.createDataFrame(rows, _LIMITS))
    return found.join(limits, ["topic", "partition"]).drop("topic").withColumnRenamed("_topic", "topic")


def _read(reader: Reader, source: str, schema: StructType, ranges: Mapping[Partition, Span]) -> DataFrame:
    """Rows of the format `source`."""
    wanted = {(reader.name(topic), index): span for (topic, index), span in ranges.items() if span.low < span.high}
    if not wanted:
        return reader.spark.createDataFrame([], schema)
    partitions: dict[str, list[int]] = {}
    for topic, index in sorted(wanted):
        partitions.setdefault(topic, []).append(index)
    options = {
        "assign": json.dumps(partitions),
        "startingOffsets": _offsets({key: span.low for key, span in wanted.items()}),
        "endingOffsets": _offsets({key: span.high for key, span in wanted.items()}),
        "minPartitions": str(reader.tasks),
    }
    return reader.spark.read.format(source).schema(schema).options(**as_options(reader.properties), **options).load()


def _offsets(values: Mapping[Partition, int]) -> str:
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), value in sorted(values.items()):
        topics.setdefault(topic, {})[str(partition)] = value
    return json.dumps(topics)
