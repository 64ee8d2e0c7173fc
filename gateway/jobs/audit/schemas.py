"""The tables of audit. Offsets named `target_*` are offsets on the target; those of the source are brought there by
the offset map."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from gateway.jobs.schemas import BATCHES, RECORDS, columns

BATCH_COLUMNS: Final = columns(
    BATCHES,
    "topic",
    "partition",
    "base_offset",
    "last_offset",
    "record_count",
    "is_control",
    "is_aborted",
    "digest",
)
"""What is read of each batch; the batch itself stays in the task."""

RECORD_COLUMNS: Final = columns(RECORDS, "topic", "partition", "offset", "timestamp", "key", "value", "headers")

_PARTITION: Final = (StructField("topic", StringType()), StructField("partition", IntegerType()))

BLOCKS: Final = StructType(
    [
        *_PARTITION,
        StructField("block", LongType()),
        StructField("source_batches", LongType()),
        StructField("target_batches", LongType()),
        StructField("equal_batches", LongType()),
        StructField("source_records", LongType()),
        StructField("target_records", LongType()),
        StructField("source_low", LongType()),
        StructField("source_high", LongType()),
        StructField("target_low", LongType()),
        StructField("target_high", LongType()),
        StructField("source_digest", StringType()),
        StructField("target_digest", StringType()),
    ]
)
"""Both sides of one block of target offsets. A pair of batches is equal when both end at the same target offset and
have one digest. `*_low`, `*_high`: first and last offset of the side's batches, null when it has none. `*_digest`:
SHA-256 over the hex of the side's batch digests in order, null when it has none."""

SPANS: Final = StructType(
    [
        *_PARTITION,
        StructField("source_low", LongType()),
        StructField("source_high", LongType()),
        StructField("target_low", LongType()),
        StructField("target_high", LongType()),
    ]
)
"""Where batches were not equal, from the first such block to the last: what is compared record by record."""
