"""A zombie attempt of a task, on real brokers: the older one ends before the newer one appends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from gateway.devcluster import DevCluster
from gateway.jobs.attempts.client import AttemptFenced
from gateway.jobs.attempts.server import AttemptServer, attempts_of
from gateway.jobs.errors import reason
from gateway.jobs.kafka import Loop
from gateway.jobs.source.batches import SPECULATES, SpeculatingBatches
from gateway.jobs.source.ranges import OffsetRange
from gateway.jobs.source.segments import WriterReport
from gateway.jobs.source.writer import WriteTask, parse_write
from tests.support.brokers.logs import log_ends
from tests.support.jobs.spark_lab import SparkLab
from tests.support.waiting import wait_until

RECORDS = 4000


@pytest.fixture
def lab(spark: SparkSession, source: DevCluster, target: DevCluster, topic: str, tmp_path: Path) -> SparkLab:
    return SparkLab(spark, source, target, topic, tmp_path, partitions=1)


@pytest.fixture
def server(spark: SparkSession) -> Iterator[AttemptServer]:
    with attempts_of(spark) as server:
        yield server


def attempt(lab: SparkLab, server: AttemptServer, number: int, throttle: int = 0) -> WriterReport:
    options = replace(parse_write(lab.write_options()), attempts=server.address, throttle_bytes_per_s=throttle)
    with Loop() as loop:
        return WriteTask(options, loop, number).copy([OffsetRange(lab.topic, 0, 0, RECORDS)])


def test_a_newer_attempt_ends_the_older_one(lab: SparkLab, server: AttemptServer) -> None:
    lab.produce(RECORDS, size=500)
    said: list[str] = []

    def zombie() -> None:
        try:
            attempt(lab, server, 1, throttle=200_000)
        except AttemptFenced as exc:
            said.append(str(exc))

    thread = threading.Thread(target=zombie)
    thread.start()
    wait_until(lambda: log_ends(lab.target.bootstrap, lab.topic, 1)[0] > 0, 60, what="the first attempt's records")
    written = attempt(lab, server, 2)
    thread.join(30)

    assert said == ["a newer attempt of this task has begun"]
    assert 0 < written.records < RECORDS, "they did not both write"
    assert not written.failed
    lab.assert_copied()


def test_without_its_driver_an_attempt_ends(lab: SparkLab, server: AttemptServer) -> None:
    lab.produce(RECORDS, size=500)
    said: list[str] = []

    def orphan() -> None:
        try:
            attempt(lab, server, 1, throttle=200_000)
        except AttemptFenced as exc:
            said.append(str(exc))

    thread = threading.Thread(target=orphan)
    thread.start()
    wait_until(lambda: log_ends(lab.target.bootstrap, lab.topic, 1)[0] > 0, 60, what="the first records")
    server.close()
    thread.join(30)

    assert said == ["the driver has ended, or is out of reach"]
    assert log_ends(lab.target.bootstrap, lab.topic, 1)[0] < RECORDS


def test_a_session_with_speculation_does_not_write(lab: SparkLab) -> None:
    lab.produce(10)

    class Named(SpeculatingBatches):
        @classmethod
        def name(cls) -> str:
            return "speculating-batches"

    lab.spark.dataSource.register(Named)
    write = lab.rows().write.format("speculating-batches").options(**lab.write_options())
    with pytest.raises(PySparkException) as caught:
        write.mode("append").save()
    assert SPECULATES in reason(caught.value)
