"""Records of both clusters, compared one by one: where batches were encoded anew. Tables in, tables out."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gateway.jobs.offset_map import Rule, locate

COMPARED: Final = ("key", "value", "headers", "timestamp")
MISSING_ON_TARGET: Final = "missing_on_target"
MISSING_ON_SOURCE: Final = "missing_on_source"
_PARTITION: Final = ("topic", "partition")


def pair_records(source: DataFrame, target: DataFrame, segments: DataFrame) -> DataFrame:
    """Records (RECORD_COLUMNS) of both sides, side by side at their target offset.

    Returns:
        topic, partition, at (target offset), s and t: structs of offset, key, value, headers, timestamp, null where a
        side has no record; difference: '' or the first thing that differs.
    """
    located = locate(source, "offset", segments)
    # A record that the map says nothing of gets a place of its own, where nothing on the target can stand.
    mapped = F.col("rule") == Rule.EXACT
    at = F.when(mapped, F.col("target_offset"))
    left = located.select(
        *_PARTITION, at.alias("at"), F.coalesce("target_offset", F.lit(-1)).alias("near"), _facts().alias("s")
    )
    right = target.select(*_PARTITION, F.col("offset").alias("at"), _facts().alias("t"))
    joined = left.join(right, [*_PARTITION, "at"], "full_outer")
    return joined.select(*_PARTITION, F.coalesce("at", "near").alias("at"), "s", "t", _difference().alias("difference"))


def count_records(pairs: DataFrame) -> DataFrame:
    """Paired records -> per partition: compared (pairs, or records without one) and different."""
    return pairs.groupBy(*_PARTITION).agg(
        F.count(F.lit(1)).alias("compared"), F.count_if(F.col("difference") != "").alias("different")
    )


def first_divergences(pairs: DataFrame) -> DataFrame:
    """Paired records -> per partition the first that differ: topic, partition, at, s, t, difference."""
    found = F.struct("at", "s", "t", "difference")
    order = F.struct("at", F.col("s.offset").isNull())
    first = pairs.where(F.col("difference") != "").groupBy(*_PARTITION).agg(F.min_by(found, order).alias("first"))
    return first.select(*_PARTITION, "first.*")


def _facts() -> Column:
    return F.struct("offset", *COMPARED)


def _difference() -> Column:
    missing = F.when(F.col("t").isNull(), F.lit(MISSING_ON_TARGET)).when(F.col("s").isNull(), F.lit(MISSING_ON_SOURCE))
    return reduce(
        lambda chain, name: chain.when(~F.col(f"s.{name}").eqNullSafe(F.col(f"t.{name}")), F.lit(name)),
        COMPARED,
        missing,
    ).otherwise(F.lit(""))
