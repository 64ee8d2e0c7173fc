"""A link with a prefix, end to end: topics and groups under their names on each side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, assert_nothing_lost, create_topic, log_ends, read_logs
from tests.support.clients.group_lab import GroupLab, Offset, Reader, commit, committed, fill, group_lab
from tests.support.clients.transactions import committed_values, transact, transactional_producer
from tests.support.clients.writer import Writer
from tests.support.waiting import wait_until

PARTITIONS = 3
PREFIX = "west."


@pytest.fixture
def lab(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[GroupLab]:
    with group_lab(tmp_path, source, target, topic) as lab:
        yield lab


@pytest.mark.parametrize("ack", ["source", "both"])
def test_a_whole_migration(lab: GroupLab, topic: str, ack: str) -> None:
    """A producer that writes to west.t at the gateway lands in t on the source, and comes out in both; then a group
    is promoted, then the topic."""
    mirror, group = PREFIX + topic, f"g-{topic}"
    lab.connect(link_prefix=PREFIX, ack=ack)
    lab.mirrored(topic, partitions=PARTITIONS, records=0, mirror=mirror)
    shown = lab.gateway.mirror(lab.link, mirror)
    assert (shown["mirror_topic_name"], shown["source_topic_name"]) == (mirror, topic)

    with Writer(lab.gateway.bootstrap, mirror, partitions=PARTITIONS, rate=300) as writer:
        writer.wait_for_acks(100)
        with Reader(lab.source.bootstrap, group, topic) as old:
            old.wait_for(200)
            with Reader(lab.gateway.bootstrap, group, mirror) as new:
                lab.wait_for_reason(group, "the group still has 1 member(s) on the source")
                assert not new.read
                old.stop()
                lab.wait_for(group, "PROMOTED")
                new.wait_for(200)
                on_source = log_ends(lab.source.bootstrap, topic, PARTITIONS)
                assert sum(on_source) > 200
                lab.promote_topic(mirror)
                writer.wait_for_acks(100)
                end = log_ends(lab.source.bootstrap, topic, PARTITIONS)
                writer.wait_for_acks(100)
                assert log_ends(lab.source.bootstrap, topic, PARTITIONS) == end  # written on the target by now
                writer.stop()
                wait_until(lambda: len(old.read) + len(new.read) == writer.sent, 60, what="everything read")
    target = read_logs(lab.target.bootstrap, mirror, PARTITIONS)
    source = read_logs(lab.source.bootstrap, topic, PARTITIONS)
    assert_nothing_lost(writer, target)
    assert_equal(source, [log[: len(source[index])] for index, log in enumerate(target)])
    for partition in range(PARTITIONS):  # each record once and in order, over both names
        assert old.offsets(topic, partition) + new.offsets(mirror, partition) == list(range(len(target[partition])))
    assert topic not in AdminClient({"bootstrap.servers": lab.target.bootstrap}).list_topics(timeout=10).topics


def test_groups_with_a_prefix_there_and_back(lab: GroupLab, topic: str) -> None:
    mirror, group = PREFIX + topic, f"g-{topic}"
    lab.connect(link_prefix=PREFIX, consumer_group_prefix_enable="true", consumer_offset_sync_enable="true",
                consumer_offset_sync_ms="1000")  # fmt: skip
    lab.mirrored(topic, records=100, mirror=mirror)
    commit(lab.source.bootstrap, group, {(topic, 0): Offset(40, "m")})
    wait_until(
        lambda: committed(lab.target.bootstrap, PREFIX + group) == {(mirror, 0): Offset(40, "m")}, 60, what="a sync"
    )
    assert lab.group(PREFIX + group)["source_group"] == group

    lab.promote(PREFIX + group)

    assert committed(lab.target.bootstrap, PREFIX + group) == {(mirror, 0): Offset(40, "m")}
    with Reader(lab.gateway.bootstrap, PREFIX + group, mirror) as reader:
        reader.wait_for(60)
    lab.demote(PREFIX + group)
    assert {key: one.offset for key, one in committed(lab.source.bootstrap, group).items()} == {(topic, 0): 100}
    assert committed(lab.target.bootstrap, group) == {}


def test_a_prefixed_name_whose_source_topic_is_not_mirrored_is_not_created(lab: GroupLab, topic: str) -> None:
    """Else a producer that moved too early would fork its topic. The bare name is nobody's: it may be created."""
    lab.connect(link_prefix=PREFIX)
    create_topic(lab.source.bootstrap, topic, partitions=1)
    admin = AdminClient({"bootstrap.servers": lab.gateway.bootstrap})
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(PREFIX + topic, 1, 1)])[PREFIX + topic].result(30)
    assert refused.value.args[0].code() == KafkaError.POLICY_VIOLATION
    assert f"lockgate mirror create {PREFIX}{topic} --link {lab.link}" in refused.value.args[0].str()
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    body = {"mirror_topic_name": PREFIX + topic}  # what the refusal told to run
    assert lab.gateway.api.post(f"/v3/links/{lab.link}/mirrors", json=body).is_success
    lab.level(PREFIX + topic)
    fill(lab.gateway.bootstrap, PREFIX + topic, 10)
    assert log_ends(lab.source.bootstrap, topic, 1) == [10]
    wait_until(lambda: log_ends(lab.target.bootstrap, PREFIX + topic, 1) == [10], 30, what="them on the target")
    assert log_ends(lab.target.bootstrap, topic, 1) == [0]


def test_partitions_added_on_the_source_are_followed(lab: GroupLab, topic: str) -> None:
    lab.connect(link_prefix=PREFIX, topic_config_sync_ms="1000")
    lab.mirrored(topic, records=10, mirror=PREFIX + topic)
    admin = AdminClient({"bootstrap.servers": lab.source.bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    wait_until(
        lambda: lab.gateway.mirror(lab.link, PREFIX + topic)["num_partitions"] == 2, 60, what="a second partition"
    )
    lab.level(PREFIX + topic)
    fill(lab.gateway.bootstrap, PREFIX + topic, 20, partitions=2)
    wait_until(lambda: log_ends(lab.target.bootstrap, PREFIX + topic, 2) == [20, 10], 60, what="both partitions")
    assert log_ends(lab.source.bootstrap, topic, 2) == [20, 10]


def test_a_transactional_producer_under_a_prefix(lab: GroupLab, topic: str) -> None:
    """Reads and writes under the names of the target, over both cutovers: of its group, and of its topic."""
    mirror, group = PREFIX + topic, f"g-{topic}"
    lab.connect(link_prefix=PREFIX, consumer_group_prefix_enable="true")
    lab.mirrored(topic, mirror=mirror)
    commit(lab.source.bootstrap, group, {(topic, 0): Offset(0)})
    lab.declare(PREFIX + group)
    producer = transactional_producer(lab.gateway.bootstrap, f"tx-{topic}")
    transact(producer, {mirror: ["a", "b"]})
    transact(producer, {mirror: ["aborted"]}, commit=False)
    producer.begin_transaction()
    producer.produce(mirror, b"c", partition=0)
    metadata = _NoMember(PREFIX + group).consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(mirror, 0, 2)], metadata, 60)
    producer.commit_transaction(60)
    assert committed_values(lab.source.bootstrap, topic) == [["a", "b", "c"]]
    # A transaction's offsets count once its marker is in the group's log, which may be after the commit's answer.
    wait_until(
        lambda: {key: one.offset for key, one in committed(lab.source.bootstrap, group).items()} == {(topic, 0): 2},
        what="the offsets of the transaction",
    )
    wait_until(lambda: committed_values(lab.target.bootstrap, mirror) == [["a", "b", "c"]], 60, what="them mirrored")
    lab.promote(PREFIX + group)
    assert {key: one.offset for key, one in committed(lab.target.bootstrap, PREFIX + group).items()} == {(mirror, 0): 2}
    lab.promote_topic(mirror)
    transact(producer, {mirror: ["d"]})
    assert committed_values(lab.target.bootstrap, mirror) == [["a", "b", "c", "d"]]
    assert committed_values(lab.source.bootstrap, topic) == [["a", "b", "c"]]


class _NoMember:
    """A consumer that only lends its group's metadata, without being a member."""

    def __init__(self, group: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group, "log_level": 0})

    def consumer_group_metadata(self) -> Any:
        return self._consumer.consumer_group_metadata()
