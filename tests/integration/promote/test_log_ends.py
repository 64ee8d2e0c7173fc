"""What a leader has acknowledged with acks=1, but its followers have not fetched, is seen by a topic promote."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from gateway.devcluster import DevCluster
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import PartitionErrors
from gateway.kafka.offsets import LATEST, list_offsets
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow


@pytest.fixture
def three(tmp_path: Path) -> Iterator[DevCluster]:
    with running_cluster("three", "3.9.1", tmp_path, brokers=3) as cluster:
        yield cluster


async def ends(cluster: Cluster, topic: str, *, log_end: bool) -> int:
    found = await list_offsets(cluster, {topic: {0: LATEST}}, log_end=log_end)
    return found[topic, 0].offset


def write(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "enable.idempotence": False})
    for number in range(count):
        producer.produce(topic, value=b"%d" % number)
    assert producer.flush(20) == 0


async def test_log_end_is_ahead_of_the_high_watermark(three: DevCluster, topic: str) -> None:
    create(three.bootstrap, NewTopic(topic, 1, 3, config={"min.insync.replicas": "1"}))
    cluster = Cluster(ClusterConfig.from_client_properties({"bootstrap.servers": three.bootstrap}))
    await cluster.start()
    try:
        write(three.bootstrap, topic, 10)

        async def level() -> bool:
            try:
                return await ends(cluster, topic, log_end=False) == 10
            except PartitionErrors:  # a broker that has not heard of the topic yet
                return False

        await wait_until_async(level, 10, what="the high watermark")
        leader = cluster.leader(topic, 0)
        followers = [pid for node, process in three.nodes.items() if node != leader and (pid := process.pid())]
        assert len(followers) == 2
        for pid in followers:
            os.kill(pid, signal.SIGSTOP)
        try:
            write(three.bootstrap, topic, 5)
            assert await ends(cluster, topic, log_end=True) == 15
            assert await ends(cluster, topic, log_end=False) == 10
        finally:
            for pid in followers:
                os.kill(pid, signal.SIGCONT)
    finally:
        await cluster.close()
