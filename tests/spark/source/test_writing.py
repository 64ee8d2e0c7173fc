"""The writer on real brokers: exactly once, whoever writes, however often, and whatever is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from gateway.devcluster import DevCluster
from gateway.jobs.errors import reason
from gateway.jobs.source.segments import Segment
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorRecord, PartitionStart
from tests.support.brokers.logs import log_ends, read_logs
from tests.support.jobs.killing_writer import KilledBatches
from tests.support.jobs.spark_lab import SparkLab
from tests.support.mirror.engine_process import EngineProcess
from tests.support.waiting import wait_until


@pytest.fixture
def lab(spark: SparkSession, source: DevCluster, target: DevCluster, topic: str, tmp_path: Path) -> SparkLab:
    return SparkLab(spark, source, target, topic, tmp_path)


Rows = Callable[[SparkLab], DataFrame]
HOW = pytest.mark.parametrize("rows", [SparkLab.rows, SparkLab.ranges], ids=["batches", "ranges"])


def refusal(work: Callable[[], object]) -> str:
    with pytest.raises(PySparkException) as caught:
        work()
    return reason(caught.value)


@HOW
def test_a_copy_and_the_same_copy_again(lab: SparkLab, rows: Rows) -> None:
    lab.produce(1000)
    ends = log_ends(lab.source.bootstrap, lab.topic, 2)

    first = lab.write(rows(lab))
    assert (first.records, first.tasks) == (1000, 2)
    assert first.segments == tuple(Segment(lab.topic, p, 0, 0, ends[p]) for p in range(2))
    lab.assert_copied()

    again = lab.write(rows(lab))
    assert (again.records, again.bytes, again.segments) == (0, 0, first.segments)
    lab.produce(100)
    assert lab.write(rows(lab)).records == 100
    lab.assert_copied()


@HOW
def test_a_log_that_starts_late_and_inside_a_batch(lab: SparkLab, rows: Rows) -> None:
    lab.produce(2000, linger_ms=200, batch_num_messages=500)
    admin = AdminClient({"bootstrap.servers": lab.source.bootstrap})
    deleted = [TopicPartition(lab.topic, p, 120) for p in range(2)]
    for future in admin.delete_records(deleted).values():
        future.result(30)
    bases: dict[int, int] = dict(lab.rows().groupBy("partition").agg(f.min("base_offset")).collect())
    assert any(base < 120 for base in bases.values()), "no log starts inside a batch"
    lab.mirror = replace(lab.mirror, starts=tuple(PartitionStart(120, bases[p]) for p in range(2)))

    lab.write(rows(lab))

    lab.assert_copied()
    assert [log[0].offset for log in read_logs(lab.target.bootstrap, lab.topic, 2)] == [120, 120]


def test_rows_that_do_not_fit_end_the_query(lab: SparkLab) -> None:
    lab.produce(400)
    rows = lab.rows().where("partition = 0")
    bases = [row.base_offset for row in rows.orderBy("base_offset").select("base_offset").collect()]

    gap = refusal(lambda: lab.write(rows.where(f"base_offset != {bases[2]}")))
    assert gap.startswith(f"{lab.topic}-0 at target offset {bases[2]}: OFFSET_GAP") or "OFFSET_GAP" in gap
    assert f"offsets {bases[2]}..{bases[3] - 1}" in gap
    backwards = refusal(lambda: lab.write(rows.orderBy(f.desc("base_offset")).coalesce(1)))
    assert backwards.startswith(f"{lab.topic}-0 at target offset")
    damaged = f.expr("overlay(batch placing x'ff' from 80)")
    assert "damaged" in refusal(lambda: lab.write(lab.rows().where("partition = 1").withColumn("batch", damaged)))
    assert f"{lab.topic}-9 at offset" in refusal(lambda: lab.write(rows.withColumn("partition", f.lit(9))))

    lab.write(lab.rows())
    lab.assert_copied()


def test_a_foreign_record_on_the_target(lab: SparkLab) -> None:
    lab.produce(400)
    producer = Producer({"bootstrap.servers": lab.target.bootstrap, "log_level": 0})
    producer.produce(lab.topic, b"foreign", partition=1)
    assert producer.flush(30) == 0

    why = refusal(lambda: lab.write(lab.rows()))

    assert why.startswith(f"{lab.topic}-1 at target offset 0: TARGET_DIVERGED")
    assert len(read_logs(lab.target.bootstrap, lab.topic, 2)[1]) == 1


def test_what_cannot_be_copied_says_so(lab: SparkLab) -> None:
    producer = Producer({"bootstrap.servers": lab.source.bootstrap, "transactional.id": lab.topic, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(lab.topic, b"t", partition=0)
    producer.commit_transaction(30)

    why = refusal(lambda: lab.write(lab.rows()))

    assert "UNSUPPORTED_MESSAGE_FORMAT: the source batch at offset 0 is transactional" in why


@HOW
def test_a_killed_task_is_tried_again(lab: SparkLab, rows: Rows) -> None:
    lab.produce(6000, size=4000)
    lab.spark.dataSource.register(KilledBatches)
    options = {**lab.write_options(), "report": ""}

    rows(lab).write.format("killed-batches").options(**options).mode("append").save()

    lab.assert_copied()


@contextmanager
def other_driver(lab: SparkLab) -> Iterator[subprocess.Popen[bytes]]:
    """A driver of its own that has begun to copy the topic, slowly."""
    options = {**lab.write_options(), "report": ""}
    command = [sys.executable, "-m", "tests.support.jobs.slow_write", lab.source.bootstrap, lab.topic, repr(options)]
    with subprocess.Popen(command) as driver:
        try:
            wait_until(
                lambda: sum(log_ends(lab.target.bootstrap, lab.topic, 2)) or driver.poll() is not None,
                120,
                what="the first records on the target",
            )
            yield driver
        finally:
            driver.kill()


def test_two_jobs_at_once(lab: SparkLab) -> None:
    lab.produce(2000, size=1000)

    with other_driver(lab) as driver:
        report = lab.write(lab.rows())
        assert 0 < report.records < 2000, "they did not write at the same time"
        assert driver.wait(120) == 0

    lab.assert_copied()


@HOW
def test_the_live_engine_at_the_same_time(lab: SparkLab, rows: Rows, tmp_path: Path) -> None:
    lab.produce(6000, size=1000)
    record = MirrorRecord(
        link="lab", source_topic=lab.topic, mirror_topic=lab.topic, mirror_id=5, starts=lab.mirror.starts
    )
    lab.mirror = replace(lab.mirror, producer_id=mirror_producer_id(7, 5))

    with EngineProcess(lab.source.bootstrap, lab.target.bootstrap, record, tmp_path, bytes_per_s=200_000) as engine:
        engine.wait_until_copied(1)
        report = lab.write(rows(lab))
        assert 0 < report.records < 6000, "they did not write at the same time"

    lab.assert_copied()


def test_a_killed_driver(lab: SparkLab) -> None:
    lab.produce(2000, size=1000)

    with other_driver(lab):
        pass
    copied = sum(log_ends(lab.target.bootstrap, lab.topic, 2))
    assert 0 < copied < 2000, "the driver was not killed in the middle"
    lab.write(lab.rows())

    lab.assert_copied()


def test_a_stream_that_copies(lab: SparkLab, tmp_path: Path) -> None:
    def run() -> None:
        rows = lab.spark.readStream.format("kafka-batches").options(
            **{
                "kafka.bootstrap.servers": lab.source.bootstrap,
                "subscribe": lab.topic,
                "maxBytesPerTrigger": "50000",
                "startingOffsets": "earliest",
            }
        )
        query = (
            rows.load()
            .writeStream.format("kafka-batches")
            .options(**{**lab.write_options(), "report": ""})
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(180)
        assert query.exception() is None

    lab.produce(1000)
    run()
    lab.assert_copied()
    lab.produce(200)
    run()
    lab.assert_copied()
