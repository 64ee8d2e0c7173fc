"""Checkpoints and offset syncs of MirrorMaker 2, from their bytes to offsets on the target."""

from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from gateway.jobs.translate.mm2 import (
    SYNCS,
    checkpoints,
    offset_syncs,
    still_valid,
    translate_by_syncs,
    translate_checkpoints,
)
from gateway.jobs.translate.schemas import OFFSETS
from tests.support.jobs.mm2_bytes import checkpoint, sync

RECORDS = StructType(
    [StructField("key", BinaryType()), StructField("value", BinaryType()), StructField("offset", LongType())]
)


def rows(*records: tuple[bytes, bytes]) -> list[tuple[bytearray, bytearray, int]]:
    return [(bytearray(key), bytearray(value), at) for at, (key, value) in enumerate(records)]


def test_from_bytes_to_the_target(spark: SparkSession) -> None:
    marks = rows(
        checkpoint("old", "us.t", 5, 5),
        checkpoint("at-sync", "us.t", 10, 8),
        checkpoint("old", "us.t", 30, 9),
        checkpoint("fresh", "us.t", 3, 2),
    )
    syncs = rows(sync("t", 10, 8), sync("t", 29, 20))

    found = translate_checkpoints(
        checkpoints(spark.createDataFrame(marks, RECORDS)),
        offset_syncs(spark.createDataFrame(syncs, RECORDS)),
        prefix="us.",
    ).collect()

    assert sorted(
        (row.group, row.topic, row.source_offset, row.target_offset, row.exact, row.rule) for row in found
    ) == [
        ("at-sync", "us.t", 10, 8, True, "sync"),
        ("fresh", "us.t", 3, 2, False, "checkpoint"),
        ("old", "us.t", 30, 21, True, "sync"),
    ]


def test_between_two_syncs(spark: SparkSession) -> None:
    syncs = spark.createDataFrame([("t", 0, 10, 8, 0), ("t", 0, 110, 108, 1), ("t", 0, 300, 250, 2)], SYNCS)
    offsets = spark.createDataFrame([("g", "t", 0, at, "") for at in (9, 11, 60, 200, 300, 400)], OFFSETS)

    def found(written_once: bool) -> list[tuple[int, int, bool, str]]:
        rows = translate_by_syncs(offsets, syncs, prefix="", written_once=written_once).collect()
        return sorted((row.source_offset, row.target_offset, row.exact, row.rule) for row in rows)

    assert found(False) == [
        (11, 9, True, "sync"),
        (60, 9, False, "after_sync"),
        (200, 109, False, "after_sync"),
        (300, 250, True, "sync"),
        (400, 251, False, "after_sync"),
    ]
    assert found(True)[1] == (60, 58, True, "between_syncs")
    assert found(True)[2] == (200, 109, False, "after_sync")


def test_a_rewind_makes_earlier_syncs_void(spark: SparkSession) -> None:
    syncs = [("t", 0, 10, 8, 0), ("t", 0, 50, 48, 1), ("t", 0, 40, 60, 2), ("t", 0, 70, 90, 3), ("t", 1, 50, 48, 4)]

    found = still_valid(spark.createDataFrame(syncs, SYNCS)).collect()

    assert sorted((row.partition, row.upstream) for row in found) == [(0, 10), (0, 40), (0, 70), (1, 50)]
