"""Offsets in a file: whose they are, and what is no offset. Only Spark is needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gateway.jobs.translate.gather import read_offsets_file


def in_file(tmp_path: Path, text: str, name: str = "offsets.csv") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_of_the_group_that_is_named(spark: SparkSession, tmp_path: Path) -> None:
    found = read_offsets_file(spark, in_file(tmp_path, "topic,partition,offset\nt,0,12\n"), "g").collect()
    assert [tuple(row) for row in found] == [("g", "t", 0, 12, "")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("group,topic,partition,offset\ng,t,0,1\nother,t,1,2\n", "--group g, but a row is of another group.*other"),
        ("topic,partition,offset\nt,0,12.9\n", "a row lacks a value, or has one of another type"),
        ("topic,partition,offset\nt,zero,12\n", "a row lacks a value, or has one of another type"),
        ("topic,partition,offset\nt,0,99999999999999999999\n", "a row lacks a value, or has one of another type"),
        ("topic,partition,offset\nt,0,-3\n", "a partition or an offset is below 0"),
        (
            "group,topic,partition,offset\ng,t,0,1\ng,t,1,5\ng,t,0,7\n",
            "several rows of one partition .*'group': 'g', 'topic': 't', 'partition': 0, 'count': 2",
        ),
    ],
)
def test_refused(spark: SparkSession, tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_offsets_file(spark, in_file(tmp_path, text), "g")


def test_a_number_with_a_fraction_in_json(spark: SparkSession, tmp_path: Path) -> None:
    path = in_file(tmp_path, '{"topic": "t", "partition": 0, "offset": 12.9}\n', "offsets.jsonl")
    with pytest.raises(ValueError, match="another type"):
        read_offsets_file(spark, path, "g")
