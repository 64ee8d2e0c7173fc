"""Records compared one by one: each kind of difference is found, and only those."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from gateway.jobs.audit.records import count_records, first_divergences, pair_records
from gateway.jobs.audit.schemas import RECORD_COLUMNS
from gateway.jobs.offset_map import SEGMENTS

T = "orders"
NOW = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
LATER = datetime(2026, 1, 2, 3, 4, 5, 679000, tzinfo=UTC)


def record(offset: int, **changes: Any) -> dict[str, Any]:
    plain = {
        "topic": T,
        "partition": 0,
        "offset": offset,
        "timestamp": NOW,
        "key": bytearray(b"k"),
        "value": bytearray(b"v%d" % offset),
        "headers": [{"key": "h", "value": bytearray(b"1")}],
    }
    return plain | changes


def table(spark: SparkSession, records: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame([[one[name] for name in RECORD_COLUMNS.names] for one in records], RECORD_COLUMNS)


def pairs(spark: SparkSession, source: list[dict[str, Any]], target: list[dict[str, Any]]) -> DataFrame:
    segments = spark.createDataFrame([(T, 0, 0, 0, 100)], SEGMENTS)
    return pair_records(table(spark, source), table(spark, target), segments)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"key": None}, "key"),
        ({"value": bytearray(b"other")}, "value"),
        ({"value": None}, "value"),
        ({"timestamp": LATER}, "timestamp"),
        ({"headers": None}, "headers"),
        ({"headers": [{"key": "h", "value": None}]}, "headers"),
        ({"headers": [{"key": "h", "value": bytearray(b"1")}] * 2}, "headers"),
    ],
)
def test_the_first_divergence(spark: SparkSession, change: dict[str, Any], difference: str) -> None:
    source = [record(offset) for offset in range(10)]
    target = [record(offset, **(change if offset in (4, 7) else {})) for offset in range(10)]

    found = pairs(spark, source, target)

    assert [tuple(row)[2:] for row in count_records(found).collect()] == [(10, 2)]
    (row,) = first_divergences(found).collect()
    assert (row.at, row.difference, row.s.offset, row.t.offset) == (4, difference, 4, 4)
    assert bytes(row.s.value) == b"v4"


def test_missing_records(spark: SparkSession) -> None:
    all_of_them = [record(offset) for offset in range(4)]

    for source, target, at, difference in (
        (all_of_them, all_of_them[:2] + all_of_them[3:], 2, "missing_on_target"),
        (all_of_them[1:], all_of_them, 0, "missing_on_source"),
        (all_of_them, [], 0, "missing_on_target"),
    ):
        (row,) = first_divergences(pairs(spark, source, target)).collect()
        assert (row.at, row.difference) == (at, difference)


def test_equal_records_whatever_the_batches(spark: SparkSession) -> None:
    records = [record(offset, key=None, headers=None) for offset in range(5)]

    found = pairs(spark, records, records)

    assert first_divergences(found).collect() == []
    assert [tuple(row)[2:] for row in count_records(found).collect()] == [(5, 0)]


def test_a_record_in_a_hole_of_the_map(spark: SparkSession) -> None:
    segments = spark.createDataFrame([(T, 0, 0, 0, 2), (T, 0, 3, 2, 1)], SEGMENTS)
    source = table(spark, [record(0), record(1), record(2), record(3, value=bytearray(b"v2"))])
    target = table(spark, [record(0), record(1), record(2)])

    (row,) = first_divergences(pair_records(source, target, segments)).collect()

    assert (row.s.offset, row.difference) == (2, "missing_on_target")
