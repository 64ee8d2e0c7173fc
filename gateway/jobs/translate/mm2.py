"""Offsets that MirrorMaker 2 keeps: its checkpoints and offset syncs -> TRANSLATED.

MirrorMaker 2 notes now and then that source record U was written to the target at D (an offset sync), and where each
group was when it last looked (a checkpoint). A record after U is after D. So a group at U goes on at D and one at
U + 1 at D + 1, exactly; one further on is known to be at D + 1 or later only, and goes on at D + 1: it reads some
records twice and misses none. Between two syncs that are equally far apart on both clusters the offsets in between
are exact too if MirrorMaker 2 wrote each record once; `written_once` says so (exactly.once.source.support, or a run
that was never restarted).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from gateway.jobs.offset_map import last_segment
from gateway.jobs.translate.mm2_format import decode_checkpoint, decode_offset_sync
from gateway.jobs.translate.schemas import OFFSETS, TRANSLATED


class Mm2Rule(StrEnum):
    """SYNC: at or one after an offset sync. BETWEEN_SYNCS: on the line between two. AFTER_SYNC: further after one, so
    one after it is taken. CHECKPOINT: MirrorMaker 2's own translation, which was the best."""

    SYNC = "sync"
    BETWEEN_SYNCS = "between_syncs"
    AFTER_SYNC = "after_sync"
    CHECKPOINT = "checkpoint"


_KEY: Final = (StructField("topic", StringType()), StructField("partition", IntegerType()))
_OFFSETS: Final = (StructField("upstream", LongType()), StructField("downstream", LongType()))

CHECKPOINTS: Final = StructType(
    [StructField("group", StringType()), *_KEY, *_OFFSETS, StructField("metadata", StringType())]
)
"""`topic`: on the target. `upstream`, `downstream`: the group's offset on the source, and what it was translated to."""

SYNCS: Final = StructType([*_KEY, *_OFFSETS, StructField("at", LongType())])
"""`topic`: on the source. `at`: offset of the sync in the offset-syncs topic, which is the order of the syncs."""

_SYNC: Final = StructType([*_KEY, *_OFFSETS])


def checkpoints(records: DataFrame) -> DataFrame:
    """Records (key, value, offset) of a checkpoints topic -> CHECKPOINTS, the last one of each group and partition."""
    decode = F.udf(decode_checkpoint, CHECKPOINTS, useArrow=False)
    decoded = records.select(decode("key", "value").alias("found"), "offset").where(F.col("found").isNotNull())
    keys = [F.col(f"found.{name}") for name in ("group", "topic", "partition")]
    latest = decoded.groupBy(*keys).agg(F.max_by("found", "offset").alias("found"))
    return latest.select("found.*")


def offset_syncs(records: DataFrame) -> DataFrame:
    """Records (key, value, offset) of an offset-syncs topic -> SYNCS that still hold.

    A sync that is not ahead of all earlier ones on both clusters means that a topic was truncated or made anew, or
    that records were written again: the earlier ones that it is not ahead of are left out.
    """
    decode = F.udf(decode_offset_sync, _SYNC, useArrow=False)
    decoded = records.select(decode("key", "value").alias("found"), F.col("offset").alias("at"))
    return still_valid(decoded.where(F.col("found").isNotNull()).select("found.*", "at"))


def still_valid(syncs: DataFrame) -> DataFrame:
    """SYNCS -> those that every later sync is ahead of, on both clusters."""
    later = Window.partitionBy("topic", "partition").orderBy(F.desc("at")).rowsBetween(Window.unboundedPreceding, -1)
    holds = F.lit(True)
    for side in ("upstream", "downstream"):
        lowest = F.min(side).over(later)
        holds = holds & (lowest.isNull() | (F.col(side) < lowest))
    return syncs.withColumn("_holds", holds).where("_holds").drop("_holds")


def as_offsets(checkpoints: DataFrame, prefix: str) -> DataFrame:
    """CHECKPOINTS -> OFFSETS of the source. `prefix` is what the target's topic names begin with, '' for nothing."""
    return checkpoints.select(
        "group",
        _without_prefix(prefix).alias("topic"),
        "partition",
        F.col("upstream").alias("source_offset"),
        "metadata",
    ).select(*OFFSETS.names)


def translate_by_syncs(offsets: DataFrame, syncs: DataFrame, *, prefix: str, written_once: bool = False) -> DataFrame:
    """OFFSETS of the source through SYNCS -> TRANSLATED with the target's topic names.

    Offsets below the first sync are left out: nothing is known of them. `lag` is null until `apply.clamp` sets it.
    """
    segments = syncs.select(
        "topic",
        "partition",
        F.col("upstream").alias("source_base"),
        F.col("downstream").alias("target_base"),
        F.lit(1).cast("long").alias("count"),
    )
    found = last_segment(offsets, "source_offset", segments).where(F.col("_map").isNotNull())
    beyond = F.col("source_offset") - F.col("_map.source_base")
    on_line = (
        F.lit(written_once)
        & F.col("_map.next_source").isNotNull()
        & (
            F.col("_map.next_source") - F.col("_map.source_base")
            == F.col("_map.next_target") - F.col("_map.target_base")
        )
    )
    rule = (
        F.when(beyond <= 1, F.lit(Mm2Rule.SYNC))
        .when(on_line, F.lit(Mm2Rule.BETWEEN_SYNCS))
        .otherwise(F.lit(Mm2Rule.AFTER_SYNC))
    )
    step = F.when(rule == Mm2Rule.AFTER_SYNC, F.lit(1).cast("long")).otherwise(beyond)
    return found.withColumns(
        {
            "topic": F.concat(F.lit(prefix), F.col("topic")),
            "target_offset": F.col("_map.target_base") + step,
            "exact": rule != Mm2Rule.AFTER_SYNC,
            "rule": rule,
            "lag": F.lit(None).cast("long"),
            "why": F.lit(""),
        }
    ).select(*TRANSLATED.names)


def translate_checkpoints(
    checkpoints: DataFrame, syncs: DataFrame, *, prefix: str, written_once: bool = False
) -> DataFrame:
    """CHECKPOINTS, made more precise by SYNCS -> TRANSLATED with the target's topic names.

    Both are safe, so the one further on is taken; MirrorMaker 2's own where the syncs say no more.
    """
    better = translate_by_syncs(as_offsets(checkpoints, prefix), syncs, prefix=prefix, written_once=written_once)
    found = better.select("group", "topic", "partition", "target_offset", "exact", "rule")
    joined = checkpoints.join(found, ["group", "topic", "partition"], "left")
    # An exact answer is the truth even where MirrorMaker 2's own lies further on; otherwise the one further on.
    by_sync = F.coalesce(F.col("exact") | (F.col("target_offset") > F.col("downstream")), F.lit(False))
    return joined.withColumns(
        {
            "source_offset": F.col("upstream"),
            "target_offset": F.when(by_sync, F.col("target_offset")).otherwise(F.col("downstream")),
            "rule": F.when(by_sync, F.col("rule")).otherwise(F.lit(Mm2Rule.CHECKPOINT)),
            "exact": by_sync & F.coalesce("exact", F.lit(False)),
            "lag": F.lit(None).cast("long"),
            "why": F.lit(""),
        }
    ).select(*TRANSLATED.names)


def _without_prefix(prefix: str) -> Column:
    topic = F.col("topic")
    return F.when(F.startswith(topic, F.lit(prefix)), F.substring(topic, len(prefix) + 1, 1 << 16)).otherwise(topic)
