"""A slice of `tests.audit_mutations` from end to end: differences seeded into pairs of topics on real brokers, all in
one audit on Spark. Each is found under its name, and none in the equal pairs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from gateway.devcluster import DevCluster
from gateway.jobs.audit.job import run_audit
from gateway.jobs.audit.page import page
from gateway.jobs.audit.report import Report, to_json
from gateway.jobs.audit.scene import AuditOptions
from gateway.jobs.audit.verdict import AuditVerdict
from tests.support.brokers.logs import create_topic

Record = dict[str, Any]
Records = list[Record]

COUNT = 60
MIDDLE = 31
START_MS = 1_767_000_000_000


def plain() -> Records:
    return [
        {
            "key": b"k%d" % number,
            "value": b"v%d" % number,
            "timestamp": START_MS + number,
            "headers": [("a", b"1"), ("b", b"2")],
        }
        for number in range(COUNT)
    ]


def put(**values: object) -> Callable[[Records], Records]:
    return lambda records: [*records[:MIDDLE], {**records[MIDDLE], **values}, *records[MIDDLE + 1 :]]


def same(records: Records) -> Records:
    return records


@dataclass(frozen=True, slots=True)
class Pair:
    """A topic on both clusters. `said`: what its finding says. `target`, `source`: what is written there. `trim`: log
    start of the target. `config`: of the target's producer."""

    said: str
    target: Callable[[Records], Records] = same
    source: Callable[[Records], Records] = same
    trim: int = 0
    config: dict[str, Any] = field(default_factory=dict)


IDENTICAL = f"IDENTICAL up to offset {COUNT}"
PAIRS = {
    "value": Pair(f"DIFFERENT at offset {MIDDLE}: value; 1 in all", put(value=b"other")),
    "null-for-empty": Pair(f"DIFFERENT at offset {MIDDLE}: value; 1 in all", put(value=None), put(value=b"")),
    "key": Pair(f"DIFFERENT at offset {MIDDLE}: key; 1 in all", put(key=b"other")),
    "one-header": Pair(f"DIFFERENT at offset {MIDDLE}: headers; 1 in all", put(headers=[("a", b"1"), ("b", b"3")])),
    "headers-in-other-order": Pair(
        f"DIFFERENT at offset {MIDDLE}: headers; 1 in all", put(headers=[("b", b"2"), ("a", b"1")])
    ),
    "timestamp-by-1-ms": Pair(
        f"DIFFERENT at offset {MIDDLE}: timestamp; 1 in all", put(timestamp=START_MS + MIDDLE + 1)
    ),
    "neighbours-swapped": Pair(
        f"DIFFERENT at offset {MIDDLE}: key; 2 in all",
        lambda records: [*records[:MIDDLE], records[MIDDLE + 1], records[MIDDLE], *records[MIDDLE + 2 :]],
    ),
    "last-batch-doubled": Pair("beyond_end", lambda records: [*records, *records[-10:]]),
    "last-record-missing": Pair("INCOMPLETE: 1 record(s) are not mirrored yet", lambda records: records[:-1]),
    "front-missing": Pair("INCOMPLETE: ", trim=10),
    "all-missing": Pair(f"INCOMPLETE: {COUNT} record(s) are not mirrored yet", lambda _: []),
    "other-topic": Pair(
        f"DIFFERENT at offset 0: key; {COUNT} in all",
        lambda records: [{**one, "key": b"o" + one["key"]} for one in records],
    ),
    "equal": Pair(IDENTICAL),
    "equal-in-other-batches": Pair(IDENTICAL, config={"batch.num.messages": 1}),
    "equal-in-another-codec": Pair(IDENTICAL, config={"compression.type": "zstd"}),
    "equal-and-empty": Pair("EMPTY: nothing to compare", lambda _: [], lambda _: []),
}


def write(cluster: DevCluster, topic: str, records: Records, config: dict[str, Any]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 20, "log_level": 0, **config})
    for one in records:
        producer.produce(topic, partition=0, **{name: value for name, value in one.items() if value is not None})
    assert producer.flush(30) == 0


def make(source: DevCluster, target: DevCluster, topic: str, pair: Pair) -> None:
    for cluster, records, config in (
        (source, pair.source(plain()), {}),
        (target, pair.target(plain()), pair.config),
    ):
        create_topic(cluster.bootstrap, topic, partitions=1, retention_ms="-1")
        write(cluster, topic, records, config)
    if pair.trim:
        admin = AdminClient({"bootstrap.servers": target.bootstrap})
        for future in admin.delete_records([TopicPartition(topic, 0, pair.trim)]).values():
            future.result(30)


def audit(spark: SparkSession, source: DevCluster, target: DevCluster, topics: list[str]) -> Report:
    here, there = ({"bootstrap.servers": one.bootstrap} for one in (source, target))
    return run_audit(spark, AuditOptions(source=here, target=there, topics=topics, wait_s=0.0))


def test_each_is_found_and_nothing_in_what_is_equal(
    spark: SparkSession, source: DevCluster, target: DevCluster, tmp_path: Path
) -> None:
    run = uuid.uuid4().hex[:6]
    topics = {f"seeded-{run}-{name}": pair for name, pair in PAIRS.items()}
    for topic, pair in topics.items():
        make(source, target, topic, pair)

    report = audit(spark, source, target, sorted(topics))

    said = {one.asked.topic: one.sentence for one in report.findings}
    wrong = {topic: found for topic, found in said.items() if topics[topic].said not in found}
    assert wrong == {}
    assert all(one.closes for one in report.findings if one.verdict is AuditVerdict.IDENTICAL)
    assert sum(one.verdict is AuditVerdict.DIFFERENT for one in report.findings) == 9
    assert (report.verdict, report.exit_code) == (AuditVerdict.DIFFERENT, 1)
    text = to_json(report.to_dict())
    shown = page(json.loads(text), sha256(text.encode()).hexdigest())
    (tmp_path / "audit.html").write_text(shown)
    assert all(topic in shown for topic in topics)
