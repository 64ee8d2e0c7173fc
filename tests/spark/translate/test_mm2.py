"""Checkpoints and offset syncs of MirrorMaker 2, from their bytes to offsets on the target."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StructField, StructType, TimestampType

from gateway.jobs.translate.mm2 import checkpoints, offset_syncs, translate_checkpoints
from tests.support.jobs.mm2_bytes import checkpoint, sync

RECORDS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
    ]
)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

Written = tuple[bytes, bytes | None]


def rows(*records: Written, hour: int) -> list[tuple[bytearray, bytearray | None, int, datetime]]:
    """One a second."""
    return [
        (bytearray(key), None if value is None else bytearray(value), at, BEGIN + timedelta(hours=hour, seconds=at))
        for at, (key, value) in enumerate(records)
    ]


def found_of(spark: SparkSession, marks: list[Written], syncs: list[Written]) -> set[tuple[object, ...]]:
    """The checkpoints were written an hour after the syncs."""
    found = translate_checkpoints(
        checkpoints(spark.createDataFrame(rows(*marks, hour=1), RECORDS)),
        offset_syncs(spark.createDataFrame(rows(*syncs, hour=0), RECORDS)),
        prefix="us.",
    )
    return {
        (row.group, row.topic, row.source_offset, row.target_offset, row.exact, row.rule) for row in found.collect()
    }


def test_from_bytes_to_the_target(spark: SparkSession) -> None:
    marks: list[Written] = [
        checkpoint("old", "us.t", 5, 5),
        checkpoint("at-sync", "us.t", 10, 8),
        checkpoint("old", "us.t", 30, 9),
        checkpoint("fresh", "us.t", 3, 2),
    ]

    assert found_of(spark, marks, [sync("t", 10, 8), sync("t", 29, 20)]) == {
        ("at-sync", "us.t", 10, 8, True, "sync"),
        ("fresh", "us.t", 3, 2, False, "checkpoint"),
        ("old", "us.t", 30, 21, True, "sync"),
    }


def test_other_policies_and_tombstones(spark: SparkSession) -> None:
    """A checkpoint of another replication policy is of another copy; one that was deleted does not bring back the one
    before it; and no sync from before a tombstone counts."""
    gone, value = checkpoint("gone", "us.t", 10, 8)
    marks: list[Written] = [
        checkpoint("g", "t", 10, 10),
        checkpoint("g", "us.t", 30, 22),
        (gone, value),
        (gone, None),
        checkpoint("h", "us.u", 10, 7),
    ]
    deleted, _ = sync("u", 0, 0)
    syncs: list[Written] = [sync("t", 10, 8), sync("t", 30, 22), sync("u", 10, 10), (deleted, None)]

    assert found_of(spark, marks, syncs) == {
        ("g", "t", 10, 10, False, "checkpoint"),
        ("g", "us.t", 30, 22, True, "sync"),
        ("h", "us.u", 10, 7, False, "checkpoint"),
    }
