"""Offsets through the map, against a model that walks the segments one by one."""

import random

import pytest
from pyspark.sql import SparkSession

from gateway.jobs.offset_map import RANGES, SEGMENTS, RowRule, identity_segments
from gateway.jobs.translate.apply import clamp, summary, translate
from gateway.jobs.translate.schemas import OFFSETS, TRANSLATED

TOPIC = "orders"
# Source 10..19 -> target 100..109, an offset gap at 20..24, 25..29 -> 110..114, copied up to 32 (markers at the end).
MAP = [(TOPIC, 0, 10, 100, 10), (TOPIC, 0, 25, 110, 5), (TOPIC, 0, 32, 115, 0)]


def translated(
    spark: SparkSession, offsets: list[tuple[str, int, int]], segments: list[tuple[str, int, int, int, int]]
):
    table = spark.createDataFrame([("g", *offset, "m") for offset in offsets], OFFSETS)
    return translate(table, spark.createDataFrame(segments, SEGMENTS))


@pytest.mark.parametrize(
    ("offset", "target", "exact", "rule", "lag"),
    [
        (9, 100, False, RowRule.LOG_START, 15),
        (10, 100, True, RowRule.EXACT, 15),
        (19, 109, True, RowRule.EXACT, 6),
        (20, 110, True, RowRule.NEXT_RECORD, 5),
        (24, 110, True, RowRule.NEXT_RECORD, 5),
        (29, 114, True, RowRule.EXACT, 1),
        (30, 115, True, RowRule.NEXT_RECORD, 0),
        (32, 115, True, RowRule.EXACT, 0),
        (33, 115, False, RowRule.BEYOND_END, 0),
    ],
)
def test_each_rule(spark: SparkSession, offset: int, target: int, exact: bool, rule: RowRule, lag: int) -> None:
    (row,) = translated(spark, [(TOPIC, 0, offset)], MAP).collect()

    assert tuple(row) == ("g", TOPIC, 0, offset, "m", target, exact, rule, lag, "")


def test_the_columns_are_those_of_the_table(spark: SparkSession) -> None:
    found = translated(spark, [(TOPIC, 0, 10)], MAP)

    assert [(field.name, field.dataType) for field in found.schema] == [
        (field.name, field.dataType) for field in TRANSLATED
    ]


def test_a_partition_that_is_not_in_the_map(spark: SparkSession) -> None:
    (row,) = translated(spark, [(TOPIC, 1, 10)], MAP).collect()

    assert (row.target_offset, row.exact, row.rule, row.lag) == (None, False, RowRule.NOT_MIRRORED, None)


def test_equal_offsets_need_one_segment_a_partition(spark: SparkSession) -> None:
    ranges = spark.createDataFrame([(TOPIC, 0, 5, 50), (TOPIC, 1, 0, 0)], RANGES)
    offsets = spark.createDataFrame([("g", TOPIC, 0, 50, ""), ("g", TOPIC, 0, 7, ""), ("g", TOPIC, 1, 0, "")], OFFSETS)

    rows = translate(offsets, identity_segments(ranges)).collect()

    assert sorted((row.partition, row.source_offset, row.target_offset, row.rule) for row in rows) == [
        (0, 7, 7, RowRule.EXACT),
        (0, 50, 50, RowRule.EXACT),
        (1, 0, 0, RowRule.EXACT),
    ]


def test_any_map(spark: SparkSession) -> None:
    rng = random.Random(random.random())  # pytest-randomly seeds it, and says with what
    segments: list[tuple[str, int, int, int, int]] = []
    for partition in range(5):
        source, target = rng.randrange(20), rng.randrange(20)
        for _ in range(rng.randrange(1, 30)):
            count = rng.randrange(1, 9)
            segments.append((TOPIC, partition, source, target, count))
            source, target = source + count + rng.randrange(4), target + count
    rng.shuffle(segments)
    points = [(TOPIC, rng.randrange(6), rng.randrange(250)) for _ in range(400)]

    rows = translated(spark, points, segments).collect()

    assert len(rows) == len(points)
    for row in rows:
        assert (row.target_offset, row.rule) == model(segments, row.partition, row.source_offset), row


def model(segments: list[tuple[str, int, int, int, int]], partition: int, offset: int) -> tuple[int | None, RowRule]:
    parts = sorted(segment[2:] for segment in segments if segment[1] == partition)
    if not parts:
        return None, RowRule.NOT_MIRRORED
    if offset < parts[0][0]:
        return parts[0][1], RowRule.LOG_START
    for source, target, count in parts:
        if source <= offset < source + count:
            return target + offset - source, RowRule.EXACT
    later = [target for source, target, _ in parts if source > offset]
    if later:
        return later[0], RowRule.NEXT_RECORD
    source, target, count = parts[-1]
    return target + count, RowRule.EXACT if offset == source + count else RowRule.BEYOND_END


def test_clamped_to_the_logs_of_the_target(spark: SparkSession) -> None:
    rows = [
        ("g", TOPIC, partition, 7, "", target, True, RowRule.EXACT, 0, "")
        for partition, target in enumerate([4, 5, 50, 51, 7])
    ]
    ranges = spark.createDataFrame([(TOPIC, partition, 5, 50) for partition in range(4)], RANGES)

    found = clamp(spark.createDataFrame(rows, TRANSLATED), ranges).orderBy("partition").collect()

    assert [(row.target_offset, row.exact, row.rule, row.lag) for row in found] == [
        (5, False, "target_log_start", 45),
        (5, True, "exact", 45),
        (50, True, "exact", 0),
        (50, False, "target_log_end", 0),
        (None, False, "not_mirrored", None),
    ]


def test_summary_of_groups(spark: SparkSession) -> None:
    found = summary(translated(spark, [(TOPIC, 0, 10), (TOPIC, 0, 20), (TOPIC, 1, 0)], MAP)).collect()

    assert [row.asDict() for row in found] == [
        {
            "group": "g",
            "partitions": 3,
            "exact": 2,
            "rules": {"exact": 1, "next_record": 1, "not_mirrored": 1},
            "lag": 20,
        }
    ]
