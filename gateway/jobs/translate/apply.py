"""Committed offsets of the source through the offset map. Tables in, tables out."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gateway.jobs.offset_map import RowRule, locate
from gateway.jobs.translate.link_offsets import REFUSED
from gateway.jobs.translate.schemas import TRANSLATED

CLAMPED_START = "target_log_start"
CLAMPED_END = "target_log_end"


def translate(offsets: DataFrame, segments: DataFrame) -> DataFrame:
    """OFFSETS through SEGMENTS -> TRANSLATED, one row for each committed offset."""
    found = locate(offsets, "source_offset", segments)
    return found.select(
        "group",
        "topic",
        "partition",
        "source_offset",
        "metadata",
        "target_offset",
        F.col("rule").isin(RowRule.EXACT, RowRule.NEXT_RECORD).alias("exact"),
        "rule",
        F.when(
            F.col("target_offset").isNotNull(), F.greatest(F.col("map_end") - F.col("target_offset"), F.lit(0))
        ).alias("lag"),
        F.lit("").alias("why"),
    )


def clamp(translated: DataFrame, ranges: DataFrame) -> DataFrame:
    """Keep target offsets inside the target's logs as they are now.

    Args:
        translated: TRANSLATED.
        ranges: RANGES of the target.

    Returns:
        TRANSLATED; what was moved is not exact, and its rule says to which end. A partition that the target does
        not have becomes not_mirrored.
    """
    logs = ranges.select("topic", "partition", "log_start", "log_end")
    joined = translated.join(logs, ["topic", "partition"], "left")
    low, high = F.col("target_offset") < F.col("log_start"), F.col("target_offset") > F.col("log_end")
    missing = F.col("log_start").isNull()
    moved = F.coalesce(low | high, F.lit(True))
    rule = (
        F.when(F.col("rule") == REFUSED, F.lit(REFUSED))
        .when(missing | F.col("target_offset").isNull(), F.lit(RowRule.NOT_MIRRORED))
        .when(low, F.lit(CLAMPED_START))
        .when(high, F.lit(CLAMPED_END))
        .otherwise(F.col("rule"))
    )
    target = F.when(low, F.col("log_start")).when(high, F.col("log_end")).otherwise(F.col("target_offset"))
    target = F.when(~missing, target)
    return joined.withColumns(
        {
            "exact": F.col("exact") & ~moved,
            "rule": rule,
            "lag": F.when(target.isNotNull(), F.greatest(F.col("log_end") - target, F.lit(0))),
            "target_offset": target,
        }
    ).select(*TRANSLATED.names)


def summary(translated: DataFrame) -> DataFrame:
    """TRANSLATED -> per group: partitions, exact, one count per rule (a map), lag (records)."""
    per_rule = translated.groupBy("group", "rule").agg(
        F.count(F.lit(1)).alias("partitions"),
        F.sum(F.col("exact").cast("int")).alias("exact"),
        F.sum("lag").alias("lag"),
    )
    return (
        per_rule.groupBy("group")
        .agg(
            F.sum("partitions").alias("partitions"),
            F.sum("exact").alias("exact"),
            F.map_from_entries(F.collect_list(F.struct("rule", "partitions"))).alias("rules"),
            F.sum("lag").alias("lag"),
        )
        .orderBy("group")
    )
