"""Offsets of real groups to a real target: translated, committed, read back, never rewound."""

import json
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, Producer
from pyspark.sql import DataFrame, SparkSession

from gateway.devcluster import DevCluster
from gateway.jobs.kafka import ask
from gateway.jobs.offset_map import SEGMENTS
from gateway.jobs.translate.checkpoint_job import rewrite
from gateway.jobs.translate.gather import find_groups, read_offsets
from gateway.jobs.translate.job import run, translate_groups, translate_mm2
from gateway.kafka.cluster import Cluster
from gateway.kafka.commits import commit_offsets, committed_offsets
from tests.support.brokers.logs import create_topic
from tests.support.jobs.mm2_bytes import checkpoint, sync
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

T = TypeVar("T")
PARTITIONS = 2


def on(cluster: DevCluster, question: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
    return ask({"bootstrap.servers": cluster.bootstrap}, question)


def properties(cluster: DevCluster) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap}


@pytest.fixture
def topic(source: DevCluster, target: DevCluster) -> str:
    """On both clusters, 100 records in each partition."""
    name = f"translate-{uuid.uuid4().hex[:8]}"
    for cluster in (source, target):
        create_topic(cluster.bootstrap, name, partitions=PARTITIONS)
        fill(cluster, name, PARTITIONS)
    return name


def fill(cluster: DevCluster, name: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
    for partition in range(partitions):
        for number in range(100):
            producer.produce(name, b"%d" % number, partition=partition)
    assert producer.flush(30) == 0


def held(cluster: DevCluster, group: str) -> dict[tuple[str, int], int]:
    found = on(cluster, lambda client: committed_offsets(client, group))
    return {key: value.offset for key, value in found.items()}


def commit_on(cluster: DevCluster, group: str, offsets: dict[tuple[str, int], int]) -> None:
    on(cluster, lambda client: commit_offsets(client, group, offsets))


def read(spark: SparkSession, source: DevCluster, groups: list[str]) -> DataFrame:
    return read_offsets(spark, properties(source), find_groups(properties(source), groups), [])


def test_from_group_to_group(spark: SparkSession, source: DevCluster, target: DevCluster, topic: str) -> None:
    fresh, ahead, twice = (f"g-{uuid.uuid4().hex[:8]}" for _ in range(3))
    for group in (fresh, ahead, twice):
        commit_on(source, group, {(topic, 0): 10, (topic, 1): 100})
    commit_on(target, ahead, {(topic, 0): 50})
    translated = translate_groups(spark, read(spark, source, [fresh, ahead, twice]), properties(target), None)

    dry = run(spark, translated, properties(target), write=False)
    assert dry.report["groups_exact"] == 3
    assert held(target, fresh) == {}

    first = run(spark, translated, properties(target), write=True)

    assert not first.failed
    assert first.report["outcomes"] == {"committed": 5, "ahead": 1}
    assert held(target, fresh) == {(topic, 0): 10, (topic, 1): 100}
    assert held(target, ahead) == {(topic, 0): 50, (topic, 1): 100}
    again = run(spark, translated, properties(target), write=True)
    assert again.report["outcomes"] == {"unchanged": 5, "ahead": 1}


def test_a_group_with_members_is_refused(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str
) -> None:
    group = f"g-{uuid.uuid4().hex[:8]}"
    commit_on(source, group, {(topic, 0): 10})
    consumer = Consumer(
        {"bootstrap.servers": target.bootstrap, "group.id": group, "client.id": "early", "log_level": 0}
    )
    consumer.subscribe([topic])

    def assigned() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    try:
        wait_until(assigned)
        translated = translate_groups(spark, read(spark, source, [group]), properties(target), None)
        outcome = run(spark, translated, properties(target), write=True)
    finally:
        consumer.close()

    assert outcome.failed
    assert outcome.report["outcomes"] == {"refused": 1}
    assert "early (127.0.0.1)" in outcome.report["problems"][0]["message"]
    assert (topic, 0) not in held(target, group)


def test_through_a_map(spark: SparkSession, source: DevCluster, target: DevCluster, topic: str) -> None:
    group = f"g-{uuid.uuid4().hex[:8]}"
    commit_on(source, group, {(topic, 0): 60, (topic, 1): 5})
    segments = spark.createDataFrame([(topic, 0, 0, 0, 50), (topic, 0, 65, 50, 50), (topic, 1, 0, 0, 500)], SEGMENTS)

    run(
        spark,
        translate_groups(spark, read(spark, source, [group]), properties(target), lambda _: segments),
        properties(target),
        write=True,
    )

    assert held(target, group) == {(topic, 0): 50, (topic, 1): 5}


def test_a_group_that_does_not_exist(source: DevCluster) -> None:
    with pytest.raises(ValueError, match="has no group nobody"):
        find_groups(properties(source), ["nobody"])


def test_mirror_maker_2(spark: SparkSession, source: DevCluster, target: DevCluster) -> None:
    alias = f"a{uuid.uuid4().hex[:8]}"
    group, name = f"g-{alias}", f"{alias}.orders"
    syncs = f"mm2-offset-syncs.{alias}.internal"
    create_topic(target.bootstrap, name, partitions=1)
    fill(target, name, 1)
    for topic, records in (
        (syncs, [sync("orders", 450, 30), sync("orders", 520, 60), sync("orders", 540, 80)]),
        (f"{alias}.checkpoints.internal", [checkpoint(group, name, 500, 41), checkpoint(group, name, 520, 42)]),
    ):
        create_topic(target.bootstrap, topic, partitions=1, cleanup_policy="compact")
        producer = Producer({"bootstrap.servers": target.bootstrap, "log_level": 0})
        for key, value in records:
            producer.produce(topic, key=key, value=value)
        assert producer.flush(30) == 0

    translated = translate_mm2(
        spark,
        properties(target),
        checkpoints_topic=f"{alias}.checkpoints.internal",
        syncs_topic=syncs,
        syncs_cluster=properties(target),
        prefix=f"{alias}.",
    )
    outcome = run(spark, translated, properties(target), write=True)

    assert outcome.report["groups"] == [{"group": group, "partitions": 1, "exact": 1, "rules": {"sync": 1}, "lag": 40}]
    assert held(target, group) == {(name, 0): 60}


def test_a_checkpoint_of_a_stream_that_goes_on(
    spark: SparkSession, source: DevCluster, target: DevCluster, topic: str, tmp_path: Path
) -> None:
    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "out"

    def stream(cluster: DevCluster, checkpoint: Path, starting: str) -> None:
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": starting}
        frame = spark.readStream.format("kafka-records").options(**options).load()
        query = frame.select("topic", "partition", "offset").writeStream.format("parquet")
        started = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(out))
        assert started.awaitTermination(120)

    stream(source, old, "earliest")
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    segments = spark.createDataFrame([(topic, index, 0, 40, 100) for index in range(PARTITIONS)], SEGMENTS)

    report = rewrite(spark, old, new, properties(target), lambda _: segments, quiet_s=0, inexact=True)

    assert report["last_batch_not_exact"] == []
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before
    last = max((new / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    (line,) = [text for text in last.read_text().split("\n") if topic in text]
    assert json.loads(line)[topic] == {str(index): 140 for index in range(PARTITIONS)}
