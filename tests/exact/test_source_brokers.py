"""A source of three brokers: leaders move, replicas move, a log is truncated by an unclean election."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from gateway.devcluster import DevCluster, java_command
from tests.exact.migration import Migration
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import assert_nothing_lost, log_ends
from tests.support.brokers.logs import create as create_any
from tests.support.clients.writer import Writer
from tests.support.gateways.fleet import PARTITIONS, GatewayFleet
from tests.support.waiting import wait_until

LINK = "three"


@pytest.fixture
def three(tmp_path: Path) -> Iterator[DevCluster]:
    """Three brokers of 3.9.1. A leader is chosen among those that are not in sync if there is no other."""
    properties = {"unclean.leader.election.enable": "true", "replica.lag.time.max.ms": "3000"}
    with running_cluster("three", "3.9.1", tmp_path, brokers=3, properties=properties) as cluster:
        yield cluster


@pytest.fixture
def migration(three: DevCluster, target: DevCluster, tmp_path: Path) -> Iterator[Migration]:
    """A gateway with a link to them."""
    migration = Migration(tmp_path, three, target, f"{LINK}-{three.spec.cluster_id[:6]}")
    try:
        migration.start()
        yield migration
        migration.stop()
    finally:
        migration.gateway.close()
        print(migration.gateway.log.read_text(errors="replace")[-4000:])  # noqa: T201 - shown when the test failed


def create(bootstrap: str, topic: str, replicas: list[list[int]]) -> None:
    """With these replicas of each partition, the leader first."""
    create_any(bootstrap, NewTopic(topic, len(replicas), replica_assignment=replicas))
    for broker in bootstrap.split(","):
        wait_until(lambda broker=broker: knows(broker, topic), 30.0, what=f"{topic} on {broker}")  # type: ignore[misc]


def knows(bootstrap: str, topic: str) -> bool:
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics.get(topic)
    return found is not None and all(partition.leader >= 0 for partition in found.partitions.values())


def leaders(bootstrap: str, topic: str) -> set[int]:
    """The brokers that lead its partitions."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=10).topics[topic]
    return {partition.leader for partition in found.partitions.values()}


def reassign(cluster: DevCluster, folder: Path, topic: str, replicas: list[list[int]]) -> None:
    """Move the replicas with Kafka's own tool, and wait until they are there."""
    plan = folder / "plan.json"
    partitions = [{"topic": topic, "partition": p, "replicas": each} for p, each in enumerate(replicas)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}), encoding="utf-8")
    tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    where = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan)]
    for action in ("--execute", "--verify"):
        done = run(java_command("3.9.1", tool, *where, action))
        assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: placed(cluster.bootstrap, topic) == replicas, 60.0, what=f"replicas {replicas}")


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def placed(bootstrap: str, topic: str) -> list[list[int]]:
    """The replicas of each partition."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=10).topics[topic].partitions
    return [found[p].replicas for p in sorted(found)]


def leader(bootstrap: str, topic: str, partition: int = 0) -> int:
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=10).topics[topic].partitions
    node: int = found[partition].leader
    return node


@pytest.mark.slow
def test_leaders_move_and_all_replicas_go_to_other_brokers(
    three: DevCluster, migration: Migration, topic: str, tmp_path: Path
) -> None:
    """Broker 1 has everything at first, and nothing in the end, when it is taken away: brokers of other ids have it."""
    create(three.bootstrap, topic, [[1, 2], [1, 2]])
    migration.mirror(topic)
    with Writer(migration.gateway.bootstrap, topic, partitions=2) as writer:
        writer.wait_for_acks(300)
        reassign(three, tmp_path, topic, [[2, 1], [2, 3]])
        writer.wait_for_acks(300)
        reassign(three, tmp_path, topic, [[3, 2], [2, 3]])
        writer.wait_for_acks(300)
        three.nodes[1].signal(signal.SIGTERM)
        assert three.nodes[1].wait_stopped(60.0)
        writer.wait_for_acks(300)
        assert leader(three.bootstrap, topic) in (2, 3)
    migration.caught_up(topic, 2)
    logs = migration.assert_same(topic, 2)
    assert_nothing_lost(writer, logs)
    assert migration.state(topic) == "ACTIVE"


@pytest.mark.slow
@pytest.mark.parametrize("more", [0, 500], ids=["shorter", "longer"])
def test_an_unclean_election(three: DevCluster, migration: Migration, topic: str, more: int) -> None:
    """A follower that was away becomes the leader, and what it missed is gone from the source, though mirrored.

    With `more` the new leader's log is longer again than the old one's was: only the leader epochs tell.
    """
    create(three.bootstrap, topic, [[1, 2]])  # broker 3 is there for the controllers' majority
    write(three.bootstrap, topic, 100)
    migration.mirror(topic)
    migration.caught_up(topic)
    three.nodes[2].signal(signal.SIGKILL)
    three.nodes[2].wait_stopped(30.0)
    write(three.bootstrap, topic, 50)  # waits until broker 2 is out of sync
    migration.caught_up(topic)
    assert log_ends(migration.target.bootstrap, topic, 1) == [150]
    three.nodes[1].signal(signal.SIGKILL)
    three.nodes[1].wait_stopped(30.0)
    three.nodes[2].start()
    wait_until(lambda: leader(three.spec.bootstrap, topic) == 2, 90.0, what="the unclean leader")
    if more:
        write(three.bootstrap, topic, more)
    error, message = migration.failed(topic)
    print(message)  # noqa: T201 - what an operator sees
    assert error == "UNEXPECTED_TRUNCATION"
    assert "100" in message
    assert log_ends(migration.target.bootstrap, topic, 1) == [150], "nothing was appended after"


def write(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all", "delivery.timeout.ms": 90_000})
    for number in range(count):
        producer.produce(topic, value=b"value %d" % number, partition=0)
    assert producer.flush(95) == 0


def test_a_gateway_that_mirrors_nothing_hears_of_a_new_leader_when_the_old_one_is_dead(
    three: DevCluster, target: DevCluster, tmp_path: Path, topic: str
) -> None:
    """Nothing but its producers tells a sidecar who leads. What it knows is looked at anew every 30 s only."""
    create(three.bootstrap, topic, [[1 + n % 3, 1 + (n + 1) % 3, 1 + (n + 2) % 3] for n in range(PARTITIONS)])
    fleet = GatewayFleet(tmp_path, three, target, topic)
    try:
        fleet.add()
        sidecar = fleet.add("sidecar")
        fleet.wait_together()
        fleet.mirror_topic()
        victim, orphans = 1, [partition for partition in range(PARTITIONS) if partition % 3 == 0]
        with fleet.writer(sidecar, rate=60) as writer:
            writer.wait_for_acks(200)
            three.nodes[victim].signal(signal.SIGKILL)
            survivors = ",".join(server for server in three.bootstrap.split(",")[1:])
            wait_until(lambda: victim not in leaders(survivors, topic), 60.0, what="new leaders")
            sent = writer.sent

            def acknowledged() -> set[int]:
                return {partition for number, (partition, _) in writer.acknowledged.copy().items() if number >= sent}

            wait_until(lambda: acknowledged().issuperset(orphans), 10.0, what="acknowledgements of new leaders")
        assert not writer.failed
    finally:
        fleet.close()
