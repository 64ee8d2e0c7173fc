"""Batches of both clusters, compared by digest. Tables in, tables out.

A mirrored batch is the source's own bytes but for header fields that the digest leaves out. So two batches that end
at the same offset and have equal digests hold the same records at the same offsets, and nothing is decoded. A batch
without an equal partner is no divergence yet: it may have been encoded anew. Its block goes to `records.py`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gateway.jobs.audit.blocks import is_unequal
from gateway.jobs.audit.schemas import BLOCKS, SPANS
from gateway.jobs.offset_map import locate
from gateway.jobs.schemas import BLOCK_BITS

_PARTITION = ("topic", "partition")


def compare_batches(source: DataFrame, target: DataFrame, segments: DataFrame) -> DataFrame:
    """Batches (BATCH_COLUMNS) of both sides -> BLOCKS.

    Control batches and aborted data, which no consumer sees, are left out on both sides.

    Args:
        segments: SEGMENTS that bring the source's offsets to the target.
    """
    pairs = _source_side(source, segments).join(_target_side(target), [*_PARTITION, "last"], "full_outer")
    equal = F.coalesce(F.col("s.digest") == F.col("t.digest"), F.lit(False))
    blocks = pairs.groupBy(*_PARTITION, F.shiftright("last", BLOCK_BITS).alias("block")).agg(
        F.count("s").alias("source_batches"),
        F.count("t").alias("target_batches"),
        F.count_if(equal).alias("equal_batches"),
        F.coalesce(F.sum("s.record_count"), F.lit(0)).alias("source_records"),
        F.coalesce(F.sum("t.record_count"), F.lit(0)).alias("target_records"),
        F.min("s.base_offset").alias("source_low"),
        F.max("s.last_offset").alias("source_high"),
        F.min("t.base_offset").alias("target_low"),
        F.max("t.last_offset").alias("target_high"),
        _digest_in_order("last", "s.digest").alias("source_digest"),
        _digest_in_order("last", "t.digest").alias("target_digest"),
    )
    return blocks.select(*BLOCKS.names)


def spans_to_decode(blocks: DataFrame) -> DataFrame:
    """BLOCKS -> SPANS, for each partition with a batch that has no equal partner."""
    bad = blocks.where(is_unequal()).groupBy(*_PARTITION)
    hull = bad.agg(F.min("block").alias("first_bad"), F.max("block").alias("last_bad"))
    inside = blocks.join(hull, list(_PARTITION)).where(F.col("block").between(F.col("first_bad"), F.col("last_bad")))
    return (
        inside.groupBy(*_PARTITION)
        .agg(
            F.min("source_low").alias("source_low"),
            F.max("source_high").alias("source_high"),
            F.min("target_low").alias("target_low"),
            F.max("target_high").alias("target_high"),
        )
        .select(*SPANS.names)
    )


def by_partition(blocks: DataFrame) -> DataFrame:
    """BLOCKS -> per partition: the sums of the counts, and source_digest and target_digest over its blocks in order."""
    sums = ("source_batches", "target_batches", "equal_batches", "source_records", "target_records")
    return blocks.groupBy(*_PARTITION).agg(
        *(F.sum(name).alias(name) for name in sums),
        _digest_in_order("block", "source_digest").alias("source_digest"),
        _digest_in_order("block", "target_digest").alias("target_digest"),
    )


def _source_side(batches: DataFrame, segments: DataFrame) -> DataFrame:
    # By its last offset, not its base: a log may start inside a batch, below the first offset of the map.
    located = locate(_data(batches), "last_offset", segments).where(F.col("target_offset").isNotNull())
    return located.select(*_PARTITION, F.col("target_offset").alias("last"), _facts().alias("s"))


def _target_side(batches: DataFrame) -> DataFrame:
    return _data(batches).select(*_PARTITION, F.col("last_offset").alias("last"), _facts().alias("t"))


def _data(batches: DataFrame) -> DataFrame:
    return batches.where(~F.col("is_control") & ~F.col("is_aborted"))


def _facts() -> Column:
    return F.struct("base_offset", "last_offset", "record_count", F.lower(F.hex("digest")).alias("digest"))


def _digest_in_order(at: str, digest: str) -> Column:
    """SHA-256 over hex digests put together in order of `at`; null when there are none."""
    pairs = F.collect_list(F.when(F.col(digest).isNotNull(), F.struct(F.col(at).alias("at"), F.col(digest).alias("d"))))
    joined = F.array_join(F.transform(F.array_sort(pairs), lambda pair: pair["d"]), "")
    return F.when(F.size(pairs) > 0, F.sha2(joined.cast("binary"), 256))
