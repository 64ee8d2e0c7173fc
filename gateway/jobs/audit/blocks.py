"""Blocks of both clusters, compared by one digest for all of their batches. Tables in, tables out.

Where offsets are the same on both clusters, batches should be too. So an equal block needs no look at its batches, and
a partition whose blocks are all equal is done; any other one is compared batch by batch (`batches.py`).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gateway.jobs.audit.schemas import BLOCKS

_KEY = ("topic", "partition", "block")


def compare_blocks(source: DataFrame, target: DataFrame) -> DataFrame:
    """DIGESTS of both sides -> BLOCKS. `equal_batches` is all of a block's batches, or 0."""
    pairs = source.alias("s").join(target.alias("t"), list(_KEY), "full_outer")
    alike = (F.col("s.digest") == F.col("t.digest")) & (F.col("s.places") == F.col("t.places"))
    equal = F.coalesce(alike, F.lit(False))
    none = F.lit(0).cast("long")
    return pairs.select(
        *_KEY,
        F.coalesce("s.batches", none).alias("source_batches"),
        F.coalesce("t.batches", none).alias("target_batches"),
        F.when(equal, F.col("s.batches")).otherwise(none).alias("equal_batches"),
        F.coalesce("s.records", none).alias("source_records"),
        F.coalesce("t.records", none).alias("target_records"),
        F.col("s.low").alias("source_low"),
        F.col("s.high").alias("source_high"),
        F.col("t.low").alias("target_low"),
        F.col("t.high").alias("target_high"),
        F.col("s.digest").alias("source_digest"),
        F.col("t.digest").alias("target_digest"),
    ).select(*BLOCKS.names)


def is_unequal() -> Column:
    """Of a row of BLOCKS: some batch has no equal partner."""
    return (F.col("equal_batches") < F.col("source_batches")) | (F.col("equal_batches") < F.col("target_batches"))
