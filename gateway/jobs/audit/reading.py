"""Pieces of partitions as tables, from this project's data sources."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from gateway.jobs.audit.pieces import Partition, Side, Span
from gateway.jobs.audit.schemas import BATCH_COLUMNS, RECORD_COLUMNS
from gateway.jobs.kafka import as_options

_LIMITS = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("_low", LongType()),
        StructField("_high", LongType()),
    ]
)


def read_batches(spark: SparkSession, properties: Mapping[str, str], sides: Mapping[Partition, Side]) -> DataFrame:
    """Batches (BATCH_COLUMNS) with a wanted record."""
    ranges = {key: side.for_batches() for key, side in sides.items()}
    found = _read(spark, "kafka-batches", BATCH_COLUMNS, properties, ranges)
    return _joined(spark, found, sides).where(F.col("base_offset") < F.col("_high")).select(*BATCH_COLUMNS.names)


def read_records(
    spark: SparkSession, properties: Mapping[str, str], sides: Mapping[Partition, tuple[Side, Span]]
) -> DataFrame:
    """Wanted records (RECORD_COLUMNS) within a range for each partition."""
    found = _read(spark, "kafka-records", RECORD_COLUMNS, properties, {key: span for key, (_, span) in sides.items()})
    limited = _joined(spark, found, {key: side for key, (side, _) in sides.items()})
    inside = (F.col("offset") >= F.col("_low")) & (F.col("offset") < F.col("_high"))
    return limited.where(inside).select(*RECORD_COLUMNS.names)


def _joined(spark: SparkSession, found: DataFrame, sides: Mapping[Partition, Side]) -> DataFrame:
    rows = [(topic, index, *side.wanted) for (topic, index), side in sorted(sides.items())]
    return found.join(F.broadcast(spark.createDataFrame(rows, _LIMITS)), ["topic", "partition"])


def _read(
    spark: SparkSession,
    source: str,
    schema: StructType,
    properties: Mapping[str, str],
    ranges: Mapping[Partition, Span],
) -> DataFrame:
    """Rows of the format `source`, in as many tasks as run at once."""
    wanted = {key: span for key, span in ranges.items() if span.low < span.high}
    if not wanted:
        return spark.createDataFrame([], schema)
    partitions: dict[str, list[int]] = {}
    for topic, index in sorted(wanted):
        partitions.setdefault(topic, []).append(index)
    options = {
        "assign": json.dumps(partitions),
        "startingOffsets": _offsets({key: span.low for key, span in wanted.items()}),
        "endingOffsets": _offsets({key: span.high for key, span in wanted.items()}),
        "minPartitions": str(spark.sparkContext.defaultParallelism),
    }
    return spark.read.format(source).schema(schema).options(**as_options(properties), **options).load()


def _offsets(values: Mapping[Partition, int]) -> str:
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), value in sorted(values.items()):
        topics.setdefault(topic, {})[str(partition)] = value
    return json.dumps(topics)
