"""A link that names its rack reads from the nearest replica (KIP-392), from the leader whenever that one fails it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create
from tests.support.brokers.topologies import PARTITIONS, Before, assert_each_is_there, gateways, same_logs, writer
from tests.support.clients.writer import Writer
from tests.support.waiting import wait_until

NEAR = 3
"""The broker in the link's rack."""


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """Three brokers in racks a, b and c. A follower gets a batch at a time, so that it can be held back in between."""
    folder = tmp_path_factory.mktemp("racks")
    properties = {
        "replica.lag.time.max.ms": "4000",
        "replica.fetch.max.bytes": "1024",
        "broker.session.timeout.ms": "60000",
    }
    with running_cluster("racks", "3.9.1", folder, brokers=3, properties=properties, racks="abc") as cluster:
        yield cluster


@pytest.fixture
def lab(tmp_path: Path, racks: DevCluster, target: DevCluster, topic: str) -> Iterator[Before]:
    """A gateway in rack c, with a link and a mirror of a topic whose partitions are led by one broker each."""
    create(racks.bootstrap, NewTopic(topic, PARTITIONS, replica_assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]]))
    with gateways(tmp_path, here=target) as before:
        before["here"].link("near", racks.bootstrap, client_rack="c")
        before["here"].mirror("near", topic)
        yield before["here"]


def fetched(lab: Before, topic: str, replica: str) -> int:
    """Bytes that leaders, or followers, have sent."""
    line = f'lockgate_mirror_fetched_bytes_total{{link="near",replica="{replica}",topic="{topic}"}} '
    found = [text for text in lab.gateway.api.get("/metrics").text.splitlines() if text.startswith(line)]
    return int(float(found[0].removeprefix(line))) if found else 0


def said(lab: Before, text: str) -> bool:
    """Whether the gateway's log has it."""
    return text in lab.gateway.log.read_text(errors="replace")


def judged(lab: Before, racks: DevCluster, topic: str, *writers: Writer) -> None:
    lab.level("near", topic)
    assert_each_is_there(same_logs({racks: topic, lab.target: topic}), *writers)


def test_the_nearest_replica_is_read(lab: Before, racks: DevCluster, topic: str) -> None:
    """Two partitions by their follower in the rack, the third by its leader, which is there."""
    with writer(lab.bootstrap, topic) as one:
        one.wait_for_acks(300)
        wait_until(lambda: said(lab, f"{topic}-0 is read from replica {NEAR}"), 60)
        wait_until(lambda: said(lab, f"{topic}-1 is read from replica {NEAR}"), 60)
        leader, follower = (fetched(lab, topic, each) for each in ("leader", "follower"))
        one.wait_for_acks(600)
    judged(lab, racks, topic, one)
    assert not said(lab, f"{topic}-2 is read from replica")
    from_leader = fetched(lab, topic, "leader") - leader
    from_follower = fetched(lab, topic, "follower") - follower
    assert from_follower > from_leader > 0


def test_a_lost_replica_is_left_for_the_leader_and_read_again_later(lab: Before, racks: DevCluster, topic: str) -> None:
    with writer(lab.bootstrap, topic) as one:
        wait_until(lambda: said(lab, f"{topic}-0 is read from replica {NEAR}"), 60)
        racks.nodes[NEAR].signal(signal.SIGKILL)
        wait_until(lambda: said(lab, f"{topic}-0 is read from its leader again: it "), 90)
        one.wait_for_acks(300)
        one.stop()
        judged(lab, racks, topic, one)
        follower = fetched(lab, topic, "follower")
        racks.up(120.0)
    with writer(lab.bootstrap, topic) as other:
        wait_until(lambda: fetched(lab, topic, "follower") > follower, 120, what="bytes from the replica")
        other.wait_for_acks(100)
    judged(lab, racks, topic, one, other)


def test_a_replica_that_lags_is_left_for_the_leader(lab: Before, racks: DevCluster, topic: str) -> None:
    """Its own high watermark stands still, so by what it says the mirror would be level. Brokers hold back a replica
    that is not in sync only; so it stands still for a moment first."""
    _set(racks, ResourceType.TOPIC, topic, "follower.replication.throttled.replicas", "*")
    _set(racks, ResourceType.BROKER, str(NEAR), "follower.replication.throttled.rate", "1")
    near = racks.nodes[NEAR]
    try:
        with writer(lab.bootstrap, topic) as one:
            one.wait_for_acks(100)
            wait_until(lambda: said(lab, f"{topic}-0 is read from replica {NEAR}"), 60)
            near.signal(signal.SIGSTOP)
            wait_until(lambda: NEAR not in _in_sync(racks, topic, 0), 60, what="the replica to be out of sync")
            one.wait_for_acks(60)  # so much that it does not get it all at once
            near.signal(signal.SIGCONT)
            wait_until(lambda: said(lab, f"{topic}-0 is read from its leader again: it lags: the leader's log"), 60)
            one.wait_for_acks(100)
            one.stop()
            judged(lab, racks, topic, one)
    finally:
        near.signal(signal.SIGCONT)
        _set(racks, ResourceType.BROKER, str(NEAR), "follower.replication.throttled.rate", "1000000000")


def _in_sync(cluster: DevCluster, topic: str, partition: int) -> list[int]:
    """Asked of a broker that is not the near one."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap.split(",")[0]})
    found = admin.list_topics(topic, timeout=20).topics[topic].partitions[partition]
    return list(found.isrs)


def _set(cluster: DevCluster, kind: ResourceType, name: str, config: str, value: str) -> None:
    entry = ConfigEntry(config, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)
