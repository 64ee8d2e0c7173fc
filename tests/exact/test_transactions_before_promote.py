"""Transactional producers on the gateway while the source is the place where mirrored topics are written."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from gateway.devcluster import DevCluster
from gateway.devcluster.java import java_command
from tests.support.brokers.logs import create_topic
from tests.support.clients.transactions import TIMEOUT_S, committed_values, transact, transactional_producer
from tests.support.gateways.failback import PARTITIONS, RoundTrip
from tests.support.gateways.gateway import GatewayProcess, running_gateway


@dataclass
class Lab:
    """One topic mirrored from the source, one that lives on the target only, and a transactional id."""

    gateway: GatewayProcess
    source: DevCluster
    target: DevCluster
    mirrored: str
    unmirrored: str
    link: str
    name: str

    def on_source(self, **options: bool) -> list[str]:
        return committed_values(self.source.bootstrap, self.mirrored, **options)[0]

    def on_target(self, **options: bool) -> list[str]:
        return committed_values(self.target.bootstrap, self.unmirrored, **options)[0]


@pytest.fixture
def lab(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[Lab]:
    link, other = f"link-{topic}", f"u-{topic}"
    create_topic(source.bootstrap, topic, partitions=1)
    create_topic(target.bootstrap, other, partitions=1)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap)
        gateway.create_mirror(link, topic)
        yield Lab(gateway, source, target, topic, other, link, f"tx-{uuid.uuid4().hex[:8]}")


def test_transactions_go_where_their_topics_are(lab: Lab) -> None:
    producer = transactional_producer(lab.gateway.bootstrap, lab.name)
    transact(producer, {lab.mirrored: ["a", "b"]})
    transact(producer, {lab.unmirrored: ["x"]})
    transact(producer, {lab.mirrored: ["lost"]}, commit=False)
    transact(producer, {lab.mirrored: ["c"]})
    transact(producer, {lab.unmirrored: ["lost"]}, commit=False)
    transact(producer, {lab.unmirrored: ["y"]})
    assert lab.on_source() == ["a", "b", "c"]
    assert lab.on_source(aborted=True) == ["a", "b", "lost", "c"]
    assert lab.on_target() == ["x", "y"]
    assert lab.on_target(aborted=True) == ["x", "lost", "y"]


def test_topics_of_both_clusters_do_not_fit_in_one_transaction(lab: Lab) -> None:
    producer = transactional_producer(lab.gateway.bootstrap, lab.name)
    with pytest.raises(KafkaException) as caught:
        transact(producer, {lab.mirrored: ["a"], lab.unmirrored: ["x"]})
    assert caught.value.args[0].txn_requires_abort()
    producer.abort_transaction(TIMEOUT_S)
    transact(producer, {lab.mirrored: ["b"]})
    assert (lab.on_source(), lab.on_target()) == (["b"], [])
    assert "a transaction over topics of both clusters was refused" in lab.gateway.log.read_text()


def test_offsets_of_the_other_cluster_end_a_librdkafka_producer_for_good(lab: Lab) -> None:
    """One that could go on would read on behind records that it has not processed."""
    group = f"g-{lab.name}"
    consumer = Consumer({"bootstrap.servers": lab.gateway.bootstrap, "group.id": group})
    producer = transactional_producer(lab.gateway.bootstrap, lab.name)
    producer.begin_transaction()
    producer.produce(lab.mirrored, b"torn", partition=0)
    producer.flush(TIMEOUT_S)
    offsets = [TopicPartition(lab.unmirrored, 0, 1)]
    with pytest.raises(KafkaException) as caught:
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
    consumer.close()
    assert caught.value.args[0].fatal()
    with pytest.raises(KafkaException):
        producer.abort_transaction(TIMEOUT_S)
    successor = transactional_producer(lab.gateway.bootstrap, lab.name)
    transact(successor, {lab.mirrored: ["b"]})
    assert lab.on_source() == ["b"]
    assert lab.on_source(aborted=True) == ["torn", "b"]


def test_offsets_of_the_other_cluster_end_a_java_producer_for_good(lab: Lab) -> None:
    """What it has not sent it remembers, and would commit with the next transaction (4.3.1)."""
    arguments = (lab.gateway.bootstrap, lab.name, lab.mirrored, lab.unmirrored, f"g-{lab.name}")
    command = java_command("4.3.1", str(Path(__file__).parent / "clients" / "Offsets.java"), *arguments)
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()
    told = [line for line in said if line.startswith(("offsets ", "abort ", "begin "))]
    assert told[0] == "offsets TransactionalIdAuthorizationException"
    assert not {"abort ok", "begin ok"} & set(told)
    assert lab.on_source() == []


def test_two_links_may_lead_to_one_source(lab: Lab) -> None:
    """Its coordinator has each transactional id once."""
    link, other = f"{lab.link}-2", f"{lab.mirrored}-2"
    create_topic(lab.source.bootstrap, other, partitions=1)
    lab.gateway.create_link(link, lab.source.bootstrap)
    lab.gateway.create_mirror(link, other)
    producer = transactional_producer(lab.gateway.bootstrap, lab.name)
    transact(producer, {lab.mirrored: ["a"], other: ["b"]})
    transact(producer, {other: ["c"]})
    assert lab.on_source() == ["a"]
    assert committed_values(lab.source.bootstrap, other) == [["b", "c"]]
    lab.gateway.delete_link(link)


def test_a_second_instance_fences_the_first(lab: Lab) -> None:
    first = transactional_producer(lab.gateway.bootstrap, lab.name)
    transact(first, {lab.mirrored: ["a"]})
    first.begin_transaction()
    first.produce(lab.mirrored, b"lost", partition=0)
    first.flush(TIMEOUT_S)
    second = transactional_producer(lab.gateway.bootstrap, lab.name)
    transact(second, {lab.mirrored: ["b"]})
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(TIMEOUT_S)
    assert caught.value.args[0].name() == "_FENCED"
    transact(second, {lab.mirrored: ["c"]})
    assert lab.on_source() == ["a", "b", "c"]


def over_and_back(lab: Lab, topic: str) -> None:
    create_topic(lab.source.bootstrap, topic, partitions=PARTITIONS)
    lab.gateway.create_mirror(lab.link, topic)
    trip = RoundTrip(lab.gateway, lab.link, (topic,), lab.source, lab.target)
    trip.wait_for("ACTIVE")
    trip.post("promote")
    trip.wait_for("STOPPED")
    trip.post("reverse-and-start-mirror")
    trip.wait_for("ACTIVE", "REVERSE")
    trip.post("promote", direction="REVERSE")
    trip.wait_for("ACTIVE")


def refusal(act: Callable[[float], None]) -> str:
    """The name of the error that it ends with; empty when it is done."""
    try:
        act(TIMEOUT_S)
    except KafkaException as exc:
        return str(exc.args[0].name())
    return ""


@pytest.mark.parametrize("behind_a_failback", [False, True])
def test_an_instance_on_the_source_and_one_on_the_gateway_fence_each_other(lab: Lab, behind_a_failback: bool) -> None:
    """What a rolling restart does, and what a rolled back one does. Behind a failback, of whichever topic, the gateway
    writes to the source under another transactional id."""
    if behind_a_failback:
        over_and_back(lab, f"{lab.mirrored}-moved")
    old = transactional_producer(lab.source.bootstrap, lab.name)
    transact(old, {lab.mirrored: ["a"]})
    old.begin_transaction()
    old.produce(lab.mirrored, b"lost", partition=0)
    old.flush(TIMEOUT_S)
    moved = transactional_producer(lab.gateway.bootstrap, lab.name)
    transact(moved, {lab.mirrored: ["b"]})
    refused = refusal(old.commit_transaction)
    copy = committed_values(lab.target.bootstrap, lab.mirrored, aborted=True)
    assert refused == "_FENCED", f"{lab.on_source(aborted=True)} on the source, {copy} in the copy"
    back = transactional_producer(lab.source.bootstrap, lab.name)
    transact(back, {lab.mirrored: ["c"]})
    with pytest.raises(KafkaException) as caught:
        transact(moved, {lab.mirrored: ["lost"]})
    assert caught.value.args[0].name() == "_FENCED"
    assert lab.on_source() == ["a", "b", "c"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_outlives_the_gateway(lab: Lab, commit: bool) -> None:
    producer = transactional_producer(lab.gateway.bootstrap, lab.name)
    transact(producer, {lab.mirrored: ["a"]})
    producer.begin_transaction()
    producer.produce(lab.mirrored, b"b", partition=0)
    producer.flush(TIMEOUT_S)
    lab.gateway.kill()
    lab.gateway.start()
    producer.produce(lab.mirrored, b"c", partition=0)
    producer.flush(TIMEOUT_S)
    (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_S)
    transact(producer, {lab.mirrored: ["d"]})
    assert lab.on_source() == (["a", "b", "c", "d"] if commit else ["a", "d"])


def test_a_producer_from_before_the_mirror(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> None:
    link, other = f"link-{topic}", f"u-{topic}"
    create_topic(source.bootstrap, topic, partitions=1)
    create_topic(target.bootstrap, other, partitions=1)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        producer = transactional_producer(gateway.bootstrap, f"tx-{topic}")
        transact(producer, {other: ["x"]})
        gateway.create_link(link, source.bootstrap)
        gateway.create_mirror(link, topic)
        transact(producer, {topic: ["a"]})
        transact(producer, {other: ["y"]})
        assert committed_values(source.bootstrap, topic) == [["a"]]
        assert committed_values(target.bootstrap, other) == [["x", "y"]]


def consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})


def test_offsets_of_a_group_on_the_source_are_committed_with_the_records_there(lab: Lab) -> None:
    group = f"g-{lab.mirrored}"
    reader = consumer(lab.source.bootstrap, group)
    transact(transactional_producer(lab.source.bootstrap, f"seed-{lab.name}"), {lab.mirrored: ["in"]})
    reader.subscribe([lab.mirrored])
    message = None
    while message is None:
        message = reader.poll(1.0)
    producer = transactional_producer(lab.gateway.bootstrap, lab.name)
    for commit, offset in ((True, 1), (False, 99)):
        producer.begin_transaction()
        producer.produce(lab.mirrored, b"out", partition=0)
        offsets = [TopicPartition(lab.mirrored, 0, offset)]
        producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), TIMEOUT_S)
        (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_S)
    committed = reader.committed([TopicPartition(lab.mirrored, 0)], TIMEOUT_S)
    assert committed[0].offset == 1
    assert lab.on_source() == ["in", "out"]
    reader.close()


def test_offsets_of_a_group_on_the_target(lab: Lab) -> None:
    """With records for the target they are one transaction; with records for the source they cannot be: a producer that
    tries ends for good, and its next process begins by aborting what is left."""
    group = f"g-{lab.mirrored}"
    reader = consumer(lab.gateway.bootstrap, group)
    transact(transactional_producer(lab.gateway.bootstrap, f"seed-{lab.name}"), {lab.unmirrored: ["in"]})
    reader.subscribe([lab.unmirrored])
    message = None
    while message is None:
        message = reader.poll(1.0)
    producer = transactional_producer(lab.gateway.bootstrap, lab.name)
    offsets = [TopicPartition(lab.unmirrored, 0, 1)]
    producer.begin_transaction()
    producer.produce(lab.unmirrored, b"out", partition=0)
    producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), TIMEOUT_S)
    producer.commit_transaction(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(lab.mirrored, b"lost", partition=0)
    producer.flush(TIMEOUT_S)
    with pytest.raises(KafkaException) as caught:
        producer.send_offsets_to_transaction(
            [TopicPartition(lab.unmirrored, 0, 2)], reader.consumer_group_metadata(), TIMEOUT_S
        )
    assert caught.value.args[0].fatal()
    transactional_producer(lab.gateway.bootstrap, lab.name)
    assert reader.committed([TopicPartition(lab.unmirrored, 0)], TIMEOUT_S)[0].offset == 1
    assert (lab.on_target(), lab.on_source()) == (["in", "out"], [])
    reader.close()
