"""What the audit must not call IDENTICAL, on real brokers: each of these it once did."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from gateway.devcluster import DevCluster
from gateway.jobs.audit.job import run_audit
from gateway.jobs.audit.kinds import DifferenceKind
from gateway.jobs.audit.relation import Relation
from gateway.jobs.audit.report import Report
from gateway.jobs.audit.scene import AuditOptions
from gateway.jobs.kafka import ask
from gateway.kafka.offsets import delete_records
from tests.exact.test_translate import COMPACTED, wait_for_compaction, write_keyed
from tests.support.brokers.logs import create_topic

pytestmark = pytest.mark.integration

START_MS = 1_767_000_000_000
Segment = tuple[int, int, int, int]
"""Partition, source base, target base, count."""


@pytest.fixture
def topic() -> str:
    return f"refused-{uuid.uuid4().hex[:8]}"


def write(cluster: DevCluster, topic: str, numbers: Sequence[int], partition: int = 0, **config: Any) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0, **config})
    for number in numbers:
        value = b"v%d" % number
        producer.produce(topic, key=b"k%d" % number, value=value, partition=partition, timestamp=START_MS + number)
    assert producer.flush(30) == 0


def pair(source: DevCluster, target: DevCluster, topic: str, here: int, there: int, **configs: str) -> None:
    """The first records of one series on each."""
    for cluster, count in ((source, here), (target, there)):
        create_topic(cluster.bootstrap, topic, partitions=1, **{"retention_ms": "-1", **configs})
        write(cluster, topic, range(count))


def delete_front(cluster: DevCluster, topic: str, offset: int) -> None:
    ask({"bootstrap.servers": cluster.bootstrap}, lambda c: delete_records(c, {(topic, 0): offset}))


def audit(
    spark: SparkSession,
    source: DevCluster,
    target: DevCluster,
    topic: str,
    *,
    given: Sequence[Segment] | None = None,
    say: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Report:
    if given is not None:
        relations: dict[tuple[str, int], Relation | str] = {
            (topic, index): Relation([segment[1:] for segment in given if segment[0] == index])
            for index in {segment[0] for segment in given}
        }
        options["given"] = relations
    wanted = AuditOptions(
        source={"bootstrap.servers": source.bootstrap},
        target={"bootstrap.servers": target.bootstrap},
        topics=[topic],
        **{"wait_s": 0.0, **options},
    )
    return run_audit(spark, wanted, say)


def test_a_front_that_retention_does_not_explain(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str
) -> None:
    pair(source, target, topic, 100, 100)
    delete_front(target, topic, 100)

    report = audit(spark, source, target, topic)

    assert report.exit_code == 4
    assert report.findings[0].sentence == (
        "INCOMPLETE: 100 record(s) are missing below the target's log start 100, and it has no retention; "
        "0 records are equal, none differs"
    )


def test_a_front_that_retention_explains(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str
) -> None:
    pair(source, target, topic, 100, 100, retention_ms=str(10 * 86_400_000))
    delete_front(target, topic, 40)

    report = audit(spark, source, target, topic)

    assert (report.exit_code, report.sums.compared, report.sums.source_only[DifferenceKind.TARGET_RETENTION]) == (
        0,
        60,
        40,
    )


def test_retention_while_it_is_compared(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str
) -> None:
    pair(source, target, topic, 100, 100, retention_ms=str(10 * 86_400_000))

    def deletes(line: str) -> None:
        if line.startswith("comparing"):  # both logs' starts are known by then
            delete_front(source, topic, 25)
            delete_front(target, topic, 30)

    report = audit(spark, source, target, topic, say=deletes)

    sums = report.sums
    assert (report.exit_code, sums.compared, sums.source_only[DifferenceKind.TARGET_RETENTION]) == (0, 70, 5)
    assert (sums.source.deleted, sums.target.deleted) == (25, 30)


@pytest.mark.parametrize(("here", "there"), [(100, 150), (0, 50)])
def test_records_beyond_the_end(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str, here: int, there: int
) -> None:
    pair(source, target, topic, here, there)

    report = audit(spark, source, target, topic)

    assert report.exit_code == 1
    assert report.findings[0].sentence == f"DIFFERENT at offset {here}: beyond_end; 50 in all"


def test_a_last_batch_doubled(spark: SparkSession, source: DevCluster, target: DevCluster, topic: str) -> None:
    pair(source, target, topic, 100, 100)
    write(target, topic, range(90, 100))

    report = audit(spark, source, target, topic)

    assert (report.exit_code, report.sums.target_only[DifferenceKind.BEYOND_END]) == (1, 10)


def test_both_empty(spark: SparkSession, source: DevCluster, target: DevCluster, topic: str) -> None:
    pair(source, target, topic, 0, 0)

    report = audit(spark, source, target, topic)

    assert (report.exit_code, report.findings[0].sentence) == (5, "EMPTY: nothing to compare")


def test_a_partition_that_the_map_does_not_know(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str
) -> None:
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic, partitions=2, retention_ms="-1")
        for partition in (0, 1):
            write(cluster, topic, range(50), partition)

    report = audit(spark, source, target, topic, given=[(0, 0, 0, 50)])

    known, unknown = report.findings
    assert (known.verdict, unknown.verdict, report.exit_code) == ("IDENTICAL", "INCOMPLETE", 4)
    assert unknown.reasons == ("it is not in the offset map",)


def test_a_partition_that_the_target_lacks(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str
) -> None:
    for cluster, partitions in ((source, 2), (target, 1)):
        create_topic(cluster.bootstrap, topic, partitions=partitions, retention_ms="-1")
        write(cluster, topic, range(50))

    report = audit(spark, source, target, topic)

    assert [one.verdict for one in report.findings] == ["IDENTICAL", "INCOMPLETE"]
    assert report.findings[1].reasons == ("the target has no such partition",)


def test_a_record_in_a_claimed_gap(spark: SparkSession, source: DevCluster, target: DevCluster, topic: str) -> None:
    """It is equal to the record after the gap, where the map sends whoever asks for it."""
    for cluster, numbers in ((source, [1, 2, 3, 3]), (target, [1, 2, 3])):
        create_topic(cluster.bootstrap, topic, partitions=1, retention_ms="-1")
        for number in numbers:
            write(cluster, topic, [number])

    report = audit(spark, source, target, topic, given=[(0, 0, 0, 2), (0, 3, 2, 1)])

    assert report.findings[0].sentence == "DIFFERENT at offset 2: record_in_gap; 1 in all"


def test_a_sample_compares_what_it_reads(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str
) -> None:
    """Batches are much longer than the pieces of the sample, which so hold no batch's end; but for the last one."""
    for cluster, value in ((source, b"one"), (target, b"two")):
        create_topic(cluster.bootstrap, topic, partitions=1, retention_ms="-1")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 200, "batch.num.messages": 1000})
        for number in range(10_000):
            content = value if number < 7_500 else b"three"
            producer.produce(topic, key=b"k", value=content, partition=0, timestamp=START_MS + number)
        assert producer.flush(30) == 0

    report = audit(spark, source, target, topic, fraction=0.0008, seed=1)

    assert report.exit_code == 1
    assert (report.sums.source.records, report.sums.different) == (8, 6)


def test_logs_that_each_cluster_compacts_for_itself(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str
) -> None:
    """The source's log cleaner was there, the target's was not."""
    not_yet = {"cleanup_policy": "compact", "min_compaction_lag_ms": str(2**60)}
    for cluster, configs in ((source, COMPACTED), (target, not_yet)):
        create_topic(cluster.bootstrap, topic, partitions=1, **configs)
        write_keyed(cluster.bootstrap, topic, 2000, 1)
    wait_for_compaction(source.bootstrap, topic, 1500)

    report = audit(spark, source, target, topic)

    sums = report.sums
    assert (report.exit_code, sums.different) == (0, 0), report.findings[0].sentence
    assert sums.target_only[DifferenceKind.COMPACTION] == 2000 - sums.compared > 500
    assert report.findings[0].closes
