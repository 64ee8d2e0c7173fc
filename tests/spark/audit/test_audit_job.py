"""The audit on real brokers: a mirrored topic, one that was written with other batches, and seeded differences."""

import asyncio
import json
import uuid
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from gateway.devcluster import DevCluster
from gateway.jobs.audit.job import run_audit
from gateway.jobs.audit.page import page
from gateway.jobs.audit.relation import Relation
from gateway.jobs.audit.report import Report, to_json
from gateway.jobs.audit.scene import AuditOptions
from gateway.jobs.audit.verdict import AuditVerdict
from tests.support.brokers.logs import create_topic
from tests.support.mirror.mirror_lab import mirror_lab

pytestmark = pytest.mark.integration

PARTITIONS = 2
RECORDS = 600
START_MS = 1_767_000_000_000

Record = dict[str, Any]


@pytest.fixture
def topic() -> str:
    return f"audit-{uuid.uuid4().hex[:8]}"


def records() -> list[Record]:
    return [
        {
            "partition": number % PARTITIONS,
            "key": b"k%d" % number if number % 3 else None,
            "value": b"v%d " % number + b"x" * 100 if number % 7 else None,
            "timestamp": START_MS + number,
            "headers": [("n", b"%d" % number), ("empty", None)] if number % 2 else None,
        }
        for number in range(RECORDS)
    ]


def write(bootstrap: str, topic: str, wanted: list[Record], **config: Any) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True, "log_level": 0, **config}
    )
    for one in wanted:
        producer.produce(topic, **{name: value for name, value in one.items() if value is not None})
    assert producer.flush(30) == 0


def audit(spark: SparkSession, source: DevCluster, target: DevCluster, topic: str, **options: Any) -> Report:
    return run_audit(
        spark,
        AuditOptions(
            source={"bootstrap.servers": source.bootstrap},
            target={"bootstrap.servers": target.bootstrap},
            topics=[topic],
            **{"wait_s": 0.0, **options},
        ),
    )


async def mirror(source: DevCluster, target: DevCluster, topic: str) -> None:
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        await lab.mirror(topic, retention_ms="-1")
        await lab.caught_up(topic)


def test_a_mirrored_topic_is_identical_batch_by_batch(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str
) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS, retention_ms="-1")
    for codec in ("none", "zstd", "lz4"):
        write(source.bootstrap, topic, records(), **{"compression.type": codec})
    asyncio.run(mirror(source, target, topic))

    report = audit(spark, source, target, topic)

    end = 3 * RECORDS // PARTITIONS
    assert [one.sentence for one in report.findings] == [f"IDENTICAL up to offset {end}"] * PARTITIONS
    sums = report.sums
    assert sums.source.records == sums.target.records == sums.compared == 3 * RECORDS
    assert sums.source.batches == sums.target.batches > 3
    assert sums.equal_batches > 0
    assert all(one.closes and one.sums.source.digest == one.sums.target.digest for one in report.findings)
    assert (report.exit_code, report.source.cluster_id != report.target.cluster_id) == (0, True)
    given = {(topic, index): Relation([(0, 0, end)]) for index in range(PARTITIONS)}
    through_map = audit(spark, source, target, topic, given=given)
    assert [one.sentence for one in through_map.findings] == [one.sentence for one in report.findings]
    assert through_map.digest == report.digest
    sampled = audit(spark, source, target, topic, fraction=0.2, seed=3)
    assert (sampled.verdict, sampled.exit_code) == (AuditVerdict.IN_SAMPLE, 6)
    assert 0 < sampled.sums.source.records == sampled.sums.compared < 3 * RECORDS
    assert f"of {end} offsets" in sampled.findings[0].sentence


def test_other_batches_with_the_same_records_are_identical(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str
) -> None:
    for cluster, config in ((source, {"batch.num.messages": 50}), (target, {"compression.type": "lz4"})):
        create_topic(cluster.bootstrap, topic, partitions=PARTITIONS, retention_ms="-1")
        write(cluster.bootstrap, topic, records(), **config)

    report = audit(spark, source, target, topic)

    assert report.verdict is AuditVerdict.IDENTICAL
    assert report.sums.equal_batches == 0
    assert (report.sums.decoded, report.sums.different) == (RECORDS, 0)


def changed_value(wanted: list[Record]) -> None:
    wanted[301]["value"] = b"other"


def changed_time(wanted: list[Record]) -> None:
    wanted[301]["timestamp"] += 1


def changed_header(wanted: list[Record]) -> None:
    wanted[301]["headers"] = [("empty", None), ("n", b"301")]


def swapped(wanted: list[Record]) -> None:
    wanted[301], wanted[303] = wanted[303], wanted[301]


def dropped(wanted: list[Record]) -> None:
    del wanted[301]


def repeated(wanted: list[Record]) -> None:
    wanted.insert(301, wanted[299])


@pytest.mark.parametrize(
    ("seed", "difference"),
    [
        (changed_value, "value"),
        (changed_time, "timestamp"),
        (changed_header, "headers"),
        (swapped, "key"),
        (dropped, "key"),
        (repeated, "key"),
    ],
)
def test_a_seeded_difference_is_found(
    spark: SparkSession,
    source: DevCluster,
    target: DevCluster,
    topic: str,
    seed: Callable[[list[Record]], None],
    difference: str,
) -> None:
    copy = records()
    seed(copy)
    for cluster, wanted in ((source, records()), (target, copy)):
        create_topic(cluster.bootstrap, topic, partitions=PARTITIONS, retention_ms="-1")
        write(cluster.bootstrap, topic, wanted)

    report = audit(spark, source, target, topic)

    assert report.verdict is AuditVerdict.DIFFERENT
    good, bad = report.findings
    assert good.sentence == f"IDENTICAL up to offset {RECORDS // PARTITIONS}"
    assert bad.identical_up_to == 150  # record 301 is the 150th of partition 1
    first = bad.sums.first
    assert first is not None
    assert first.kind in (difference, "value")
    assert (first.source or {})["timestamp_ms"] == START_MS + 301
    assert first.target_offset == 150
    text = to_json(report.to_dict())
    shown = page(json.loads(text), sha256(text.encode()).hexdigest())
    assert "DIFFERENT at offset 150" in shown
    assert "http" not in shown.replace("html", "")


def test_a_target_that_lags_is_incomplete(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str
) -> None:
    for cluster, wanted in ((source, records()), (target, records()[:400])):
        create_topic(cluster.bootstrap, topic, partitions=PARTITIONS, retention_ms="-1")
        write(cluster.bootstrap, topic, wanted, **{"batch.num.messages": 1})

    report = audit(spark, source, target, topic)

    assert [one.sentence for one in report.findings] == [
        "INCOMPLETE: 100 record(s) are not mirrored yet; 200 records are equal, none differs"
    ] * PARTITIONS


def test_a_topic_that_one_cluster_lacks(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str
) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    with pytest.raises(ValueError, match=f"has no topic {topic}"):
        audit(spark, source, target, topic)
