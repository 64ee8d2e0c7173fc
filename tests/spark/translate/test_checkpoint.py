"""A checkpoint folder with many partitions: its offsets are the tasks' work, not the driver's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from gateway.jobs.offset_map import SEGMENTS
from gateway.jobs.translate import checkpoint_job
from gateway.jobs.translate.checkpoint_job import rewrite
from gateway.jobs.translate.spark_checkpoint import BadCheckpoint

BATCHES = 30
PARTITIONS = 200


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A query that reads two topics by two sources, one of them not Kafka's."""
    folder = tmp_path / "old"
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "sources/0/0").write_bytes(b"\x00v1\n" + offsets(0).encode())
    for batch in range(BATCHES):
        (folder / f"offsets/{batch}").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets(batch)}\n{{"logOffset":3}}')
        (folder / f"commits/{batch}").write_text("v1\n{}")
    return folder


def offsets(at: int) -> str:
    logs = {str(index): at + index for index in sorted(range(PARTITIONS), key=str)}
    return json.dumps({"a": {"0": at}, "b": logs}, separators=(",", ":"))


def there(partitions: int) -> dict[tuple[str, int], tuple[int, int]]:
    return {("a", 0): (0, 5000)} | {("b", index): (0, 5000) for index in range(partitions)}


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> list[int]:
    """How many rows came to the driver, by query."""
    counts: list[int] = []
    kind: Any = type(spark.range(1))
    collect, iterate = kind.collect, kind.toLocalIterator

    def counting(frame: DataFrame) -> list[Row]:
        rows: list[Row] = collect(frame)
        counts.append(len(rows))
        return rows

    def iterating(frame: DataFrame) -> Iterator[Row]:
        rows = list(iterate(frame))
        counts.append(len(rows))
        return iter(rows)

    monkeypatch.setattr(kind, "collect", counting)
    monkeypatch.setattr(kind, "toLocalIterator", iterating)
    return counts


def run(spark: SparkSession, old: Path, new: Path, partitions: int = PARTITIONS, *, shift: int = 100) -> dict[str, Any]:
    maps = [(topic, index, 0, shift, 1000) for topic, index in there(partitions)]
    segments = spark.createDataFrame(maps, SEGMENTS)
    return rewrite(spark, old, new, {}, lambda _: segments, quiet_s=0)


def test_the_driver_gets_lines_and_no_offsets(
    spark: SparkSession, old: Path, tmp_path: Path, collected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_job, "target_ranges", lambda *_: there(PARTITIONS))
    before = {path.relative_to(old): path.read_bytes() for path in old.rglob("*") if path.is_file()}

    report = run(spark, old, tmp_path / "new")

    assert sum(collected) < 2 * (BATCHES + 1), "offsets came to the driver one by one"
    assert (report["offsets"], report["rules"]["exact"]) == ((BATCHES + 1) * (PARTITIONS + 1),) * 2
    assert (report["last_batch"], report["last_batch_not_exact"]) == (f"offsets/{BATCHES - 1}", [])
    after = {
        path.relative_to(old.with_name("new")): path.read_bytes()
        for path in tmp_path.glob("new/**/*")
        if path.is_file()
    }
    assert set(after) == set(before)
    for path, content in before.items():
        if path.parts[0] == "commits":
            assert after[path] == content
            continue
        was, now = content.decode().split("\n"), after[path].decode().split("\n")
        found = [line for line in zip(was, now, strict=True) if line[0] != line[1]]
        ((line, moved),) = found
        assert {
            topic: {index: at + 100 for index, at in logs.items()} for topic, logs in json.loads(line).items()
        } == json.loads(moved)


def test_an_offset_without_a_translation(
    spark: SparkSession, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_job, "target_ranges", lambda *_: there(PARTITIONS - 1))

    with pytest.raises(BadCheckpoint, match=rf": b-{PARTITIONS - 1} has no offset on the target"):
        run(spark, old, tmp_path / "new", PARTITIONS - 1)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("first", [True, False])
def test_a_batch_that_is_run_again_begins_at_an_exact_offset_too(
    spark: SparkSession, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """It was cut off: its own offsets may be exact, and those that it is read from again are not."""
    monkeypatch.setattr(checkpoint_job, "target_ranges", lambda *_: there(PARTITIONS))
    last = 0 if first else BATCHES - 1
    for batch in range(last + 1, BATCHES):
        (old / f"offsets/{batch}").unlink()
    for batch in range(last, BATCHES):
        (old / f"commits/{batch}").unlink()
    before = old / ("sources/0/0" if first else f"offsets/{last - 1}")
    before.write_bytes(before.read_bytes().replace(b'"a":{"0":%d}' % max(0, last - 1), b'"a":{"0":900}'))
    maps = [(topic, index, 0, 100, 5000 if topic == "b" else 500) for topic, index in there(PARTITIONS)]
    segments = spark.createDataFrame(maps, SEGMENTS)

    with pytest.raises(BadCheckpoint, match=rf"its last batch, {last}, is not committed"):
        rewrite(spark, old, tmp_path / "new", {}, lambda _: segments, quiet_s=0)
    report = rewrite(spark, old, tmp_path / "new", {}, lambda _: segments, quiet_s=0, stopped=True)

    assert (report["written"], report["last_batch"]) == (False, f"offsets/{last}")
    assert report["runs_again_from"] == [str(before.relative_to(old))]
    assert [(row["topic"], row["source_offset"]) for row in report["last_batch_not_exact"]] == [("a", 900)]
    inexact = rewrite(spark, old, tmp_path / "new", {}, lambda _: segments, quiet_s=0, stopped=True, inexact=True)
    assert inexact["written"]


def test_an_offset_that_the_target_does_not_have_any_more(
    spark: SparkSession, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map knows it, the target's retention has deleted it: the query would end there, or skip some silently."""
    logs = {**there(PARTITIONS), ("a", 0): (500, 5000)}
    monkeypatch.setattr(checkpoint_job, "target_ranges", lambda *_: logs)

    report = run(spark, old, tmp_path / "new")

    assert not report["written"]
    assert [(row["topic"], row["target_offset"], row["rule"]) for row in report["last_batch_not_exact"]] == [
        ("a", 500, "target_log_start")
    ]
    assert report["rules"]["target_log_start"] == BATCHES + 1


def test_a_query_that_runs_while_it_is_translated(
    spark: SparkSession, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has come to rest again when all is copied: the batch was copied as it is, with offsets of the source."""

    def logs(*_: object) -> dict[tuple[str, int], tuple[int, int]]:
        (old / f"offsets/{BATCHES}").write_bytes((old / f"offsets/{BATCHES - 1}").read_bytes())
        return there(PARTITIONS)

    monkeypatch.setattr(checkpoint_job, "target_ranges", logs)
    with pytest.raises(BadCheckpoint, match=rf"offsets/{BATCHES} was written"):
        run(spark, old, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_is_written_when_a_mirror_has_changed_meanwhile(
    spark: SparkSession, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_job, "target_ranges", lambda *_: there(PARTITIONS))
    segments = spark.createDataFrame([(topic, index, 0, 0, 1000) for topic, index in there(PARTITIONS)], SEGMENTS)
    with pytest.raises(BadCheckpoint, match="was changed meanwhile"):
        rewrite(
            spark, old, tmp_path / "new", {}, lambda _: segments, quiet_s=0,
            look_again=lambda: ["mirror topic 'a' was changed meanwhile"],
        )  # fmt: skip
    assert not (tmp_path / "new").exists()


def test_a_last_batch_that_is_not_exact_is_not_written(
    spark: SparkSession, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_job, "target_ranges", lambda *_: there(PARTITIONS))
    maps = [(topic, index, 0, 0, 1000 if topic == "b" else 5) for topic, index in there(PARTITIONS)]
    segments = spark.createDataFrame(maps, SEGMENTS)

    report = rewrite(spark, old, tmp_path / "new", {}, lambda _: segments, quiet_s=0)

    assert not report["written"]
    assert [(row["topic"], row["rule"]) for row in report["last_batch_not_exact"]] == [("a", "beyond_end")]
    assert not (tmp_path / "new").exists()
