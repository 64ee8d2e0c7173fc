"""The offset map as a table, and how an offset of the source is found in it.

An offset is located by an as-of join: for each point the last segment that begins at or before it. Points and
segments are put into one table, sorted together per partition, and walked once. So the work is that of one sort,
whatever the number of groups that look at the same partition: there is no product of points and segments.

For the audit of two clusters without a link such a table comes from a file (`relations`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from gateway.jobs.audit.relation import Relation
from gateway.kafka.topic_partition import TopicPartition

SEGMENTS: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("source_base", LongType()),
        StructField("target_base", LongType()),
        StructField("count", LongType()),
    ]
)
"""Source offsets source_base .. source_base + count - 1 have target offsets target_base .. target_base + count - 1.

Segments of a partition do not overlap, on either side. A source offset between two segments has no record on the
target (a compacted record, a transaction marker, aborted data). The last segment of a partition tells how far it was
copied; a segment of count 0 says that without a record of its own.
"""

RANGES: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("log_start", LongType()),
        StructField("log_end", LongType()),
    ]
)
"""A partition's log as it stands: offsets log_start .. log_end - 1."""

_KEYS: Final = ("topic", "partition")


class RowRule(StrEnum):
    """How a target offset was found. The next record to read is the same one as on the source in the first two.

    EXACT: the record was copied, or the offset is the end of what was copied. NEXT_RECORD: the offset is in an offset
    gap;
    the record after the gap. LOG_START: below everything that was copied; the first record. BEYOND_END: not copied
    yet; the end of what was. NOT_MIRRORED: the map has nothing of this partition; there is no target offset.
    """

    EXACT = "exact"
    NEXT_RECORD = "next_record"
    LOG_START = "log_start"
    BEYOND_END = "beyond_end"
    NOT_MIRRORED = "not_mirrored"


def identity_segments(ranges: DataFrame) -> DataFrame:
    """RANGES of the target -> SEGMENTS of mode `preserve`: one per partition, target offset = source offset."""
    return ranges.select(
        "topic",
        "partition",
        F.col("log_start").alias("source_base"),
        F.col("log_start").alias("target_base"),
        (F.col("log_end") - F.col("log_start")).alias("count"),
    )


def locate(points: DataFrame, at: str, segments: DataFrame) -> DataFrame:
    """Find the target offset of a source offset in each row.

    Args:
        points: any columns, among them topic, partition and `at`, an offset on the source.
        segments: SEGMENTS.

    Returns:
        `points` with target_offset (null where the rule is not_mirrored), rule, and map_end: the target offset at the
        end of what was copied of the partition.
    """
    found = last_segment(points, at, segments).join(_bounds(segments), list(_KEYS), "left")
    beyond = F.col(at) - F.col("_map.source_base")
    count, following = F.col("_map.count"), F.col("_map.next_target")
    rule = (
        F.when(F.col("_end_target").isNull(), F.lit(RowRule.NOT_MIRRORED))
        .when(F.col("_map").isNull(), F.lit(RowRule.LOG_START))
        .when(beyond < count, F.lit(RowRule.EXACT))
        .when(following.isNotNull(), F.lit(RowRule.NEXT_RECORD))
        .when(beyond == count, F.lit(RowRule.EXACT))
        .otherwise(F.lit(RowRule.BEYOND_END))
    )
    located = found.withColumn("rule", rule)
    end = F.col("_end_target").alias("map_end")
    return located.select(*points.columns, _target(beyond).alias("target_offset"), "rule", end)


def _target(beyond: Column) -> Column:
    return (
        F.when(F.col("rule") == RowRule.EXACT, F.col("_map.target_base") + beyond)
        .when(F.col("rule") == RowRule.NEXT_RECORD, F.col("_map.next_target"))
        .when(F.col("rule") == RowRule.LOG_START, F.col("_first_target"))
        .when(F.col("rule") == RowRule.BEYOND_END, F.col("_end_target"))
    )


def last_segment(points: DataFrame, at: str, segments: DataFrame) -> DataFrame:
    """`points` with `_map`: the last of SEGMENTS that begins at or before `at`, null when none does.

    `_map` has source_base, target_base, count, and next_source and next_target of the segment after it (or null).
    """
    in_order = Window.partitionBy(*_KEYS).orderBy("source_base")
    following = {f"next_{side}": F.lead(f"{side}_base").over(in_order) for side in ("source", "target")}
    chained = segments.withColumns(following).select(
        *_KEYS,
        F.col("source_base").alias("_at"),
        F.lit(0).alias("_is_point"),
        F.struct("source_base", "target_base", "count", "next_source", "next_target").alias("_map"),
    )
    events = points.select(
        *_KEYS,
        F.col(at).cast("long").alias("_at"),
        F.lit(1).alias("_is_point"),
        F.struct(*points.columns).alias("_point"),
    ).unionByName(chained, allowMissingColumns=True)
    up_to_here = (
        Window.partitionBy(*_KEYS).orderBy("_at", "_is_point").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        events.withColumn("_map", F.last("_map", ignorenulls=True).over(up_to_here))
        .where(F.col("_is_point") == 1)
        .select("_point.*", "_map")
    )


def _bounds(segments: DataFrame) -> DataFrame:
    """Per partition the target offsets of the first record and of the end of the map."""
    return segments.groupBy(*_KEYS).agg(
        F.min_by("target_base", "source_base").alias("_first_target"),
        F.max_by(F.col("target_base") + F.col("count"), F.col("source_base")).alias("_end_target"),
    )


def relations(segments: DataFrame) -> dict[TopicPartition, Relation | str]:
    """SEGMENTS -> how the offsets of each partition relate, or what is wrong with its segments."""
    columns = segments.orderBy("topic", "partition", "source_base", "count").toArrow().to_pydict()
    rows = zip(*(columns[name] for name in segments.columns), strict=True)
    found: dict[TopicPartition, list[tuple[int, int, int]]] = {}
    for topic, partition, source, target, count in rows:
        found.setdefault((topic, partition), []).append((source, target, count))
    return {key: _relation(each) for key, each in found.items()}


def _relation(segments: Iterable[tuple[int, int, int]]) -> Relation | str:
    try:
        return Relation(segments)
    except ValueError as exc:
        return str(exc)
