"""What the tables of the jobs look like: the columns of the data sources, and how to ask for some of them only."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

BATCHES: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("base_offset", LongType()),
        StructField("last_offset", LongType()),
        StructField("record_count", IntegerType()),
        StructField("max_timestamp", LongType()),
        StructField("codec", StringType()),
        StructField("producer_id", LongType()),
        StructField("is_transactional", BooleanType()),
        StructField("is_control", BooleanType()),
        StructField("is_aborted", BooleanType()),
        StructField("leader_epoch", IntegerType()),
        StructField("batch", BinaryType()),
        StructField("digest", BinaryType()),
    ]
)
"""`kafka-batches`: one row per record batch of format v2.

`record_count` is what is in the batch; with gaps from compaction it is less than last_offset - base_offset + 1.
`max_timestamp`: milliseconds since the epoch, -1 for none. `codec`: none, gzip, snappy, lz4 or zstd. `producer_id`:
-1 for none. `is_control`: a transaction marker, no data. `is_aborted`: data of an aborted transaction, to be shown to
nobody. `batch`: the 61-byte header and the records, as they came. `digest`: SHA-256 of what a copy must not change
(`protocol.batch.header.batch_digest`).
"""

RECORDS: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField(
            "headers",
            ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        ),
    ]
)
"""`kafka-records`: one row per record; the columns of Spark's own Kafka source with includeHeaders=true.

`timestamp` has milliseconds; one beyond the years 1 to 9999 is their first or last instant.
`timestampType`: 0 CreateTime, 1 LogAppendTime. `headers` is null when there are none.
"""

RANGES: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("start_offset", LongType()),
        StructField("end_offset", LongType()),
    ]
)
"""`kafka-ranges`: one row per range of offsets, `end_offset` not in it."""


def columns(table: StructType, *names: str) -> StructType:
    """Some columns of a table, for `spark.read.format(…).schema(…)`: the others are neither made nor carried.

    Raises:
        KeyError: a name that the table does not have.
    """
    return StructType([table[name] for name in names])
