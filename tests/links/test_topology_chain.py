"""A chain of three clusters: the second one's mirror topics are the source of the third."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, create_topic, log_ends, read_logs
from tests.support.brokers.topologies import NOT_WRITTEN, PARTITIONS, assert_each_is_there, gateways, same_logs, writer
from tests.support.clients.transactions import committed_values, transact, transactional_producer
from tests.support.waiting import wait_until


def test_by_the_gateways_of_the_second_cluster(
    tmp_path: Path, source: DevCluster, target: DevCluster, third: DevCluster, topic: str
) -> None:
    """What clients of the last gateway write goes all the way up and comes out everywhere. Promoted from the top down;
    the other order is refused with the reason, and changes nothing."""
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with gateways(tmp_path, second=target, last=third) as before:
        second, last = before["second"], before["last"]
        second.link("a-b", source.bootstrap)
        second.mirror("a-b", topic)
        last.link("b-c", second.bootstrap)
        last.mirror("b-c", topic)
        with writer(second.bootstrap, topic) as middle, writer(last.bootstrap, topic) as end:
            middle.wait_for_acks(100)
            end.wait_for_acks(100)
            assert "promote it there first" in last.refusal("b-c", topic, "promote")
            assert last.describe("b-c", topic)["mirror_status"] == "ACTIVE"
            end.wait_for_acks(50)
            second.promote("a-b", topic)
            middle.wait_for_acks(100)
            end.wait_for_acks(100)
            at_first = read_logs(source.bootstrap, topic, PARTITIONS)
            middle.stop()
            last.promote("b-c", topic)
            at_second = log_ends(target.bootstrap, topic, PARTITIONS)
            end.wait_for_acks(100)
        logs = read_logs(third.bootstrap, topic, PARTITIONS)
        assert_each_is_there(logs, middle, end)
        assert log_ends(target.bootstrap, topic, PARTITIONS) == at_second
        assert log_ends(source.bootstrap, topic, PARTITIONS) == [len(log) for log in at_first]
        assert_equal(at_first, [log[: len(at_first[index])] for index, log in enumerate(logs)])
        assert_equal(
            read_logs(target.bootstrap, topic, PARTITIONS),
            [log[: at_second[index]] for index, log in enumerate(logs)],
        )


def test_straight_to_the_second_cluster(
    tmp_path: Path, source: DevCluster, target: DevCluster, third: DevCluster, topic: str
) -> None:
    """Refused where clients could write behind the other gateway's mirror; where they can't, mirrored, and promoted
    after the first link. The record says where the batches are from."""
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with gateways(tmp_path, second=target, last=third) as before:
        second, last = before["second"], before["last"]
        second.link("a-b", source.bootstrap)
        second.mirror("a-b", topic)
        last.link("writes", target.bootstrap)
        said = last.refusal("writes", topic)
        assert "would land behind that mirror" in said
        assert "bootstrap.servers" in said
        last.link("reads", target.bootstrap, link_client_topic_filters=NOT_WRITTEN)
        last.mirror("reads", topic)
        up = last.describe("reads", topic)["provenance"]["upstream"]
        assert [(each["cluster_id"], each["link"], each["until_offsets"]) for each in up] == [
            (source.spec.cluster_id, "a-b", [])
        ]
        with writer(second.bootstrap, topic) as middle:
            middle.wait_for_acks(100)
            refused = Producer({"bootstrap.servers": last.bootstrap, "message.timeout.ms": 8000, "log_level": 0})
            errors: list[str] = []
            refused.produce(topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(str(error)))
            refused.flush(20)
            assert errors
            assert errors != ["None"]
            for force in (False, True):
                assert "promote it there first" in last.refusal("reads", topic, "promote", force=force)
            second.promote("a-b", topic)
            cut = log_ends(source.bootstrap, topic, PARTITIONS)
            middle.wait_for_acks(100)
        assert_each_is_there(same_logs({target: topic, third: topic}), middle)
        last.promote("reads", topic)
        up = last.describe("reads", topic)["provenance"]["upstream"]
        assert [each["until_offsets"] for each in up] == [cut]
        with writer(last.bootstrap, topic) as end:
            end.wait_for_acks(50)
        assert_each_is_there(read_logs(third.bootstrap, topic, PARTITIONS), middle, end)
        assert "would land behind" not in second.describe("a-b", topic)["error_message"]
        assert second.describe("a-b", topic)["mirror_status"] == "STOPPED"


def test_transactions_come_through_a_chain(
    tmp_path: Path, source: DevCluster, target: DevCluster, third: DevCluster, topic: str
) -> None:
    """Markers and aborted records stay on the first cluster: the second one's copy has none, so neither has the
    third's."""
    create_topic(source.bootstrap, topic, partitions=1)
    with gateways(tmp_path, second=target, last=third) as before:
        second, last = before["second"], before["last"]
        second.link("a-b", source.bootstrap)
        second.mirror("a-b", topic)
        last.link("b-c", second.bootstrap)
        last.mirror("b-c", topic)
        producer = transactional_producer(source.bootstrap, f"tx-{topic}")
        transact(producer, {topic: ["a", "b"]})
        transact(producer, {topic: ["aborted"]}, commit=False)
        transact(producer, {topic: ["c"]})
        for cluster in (target, third):
            _wait_for(cluster, topic, "a", "b", "c")
        assert log_ends(third.bootstrap, topic, 1) == log_ends(target.bootstrap, topic, 1) == [3]
        over = transactional_producer(last.bootstrap, f"tx-over-{topic}")
        try:
            transact(over, {topic: ["d"]})
        except KafkaException as exc:
            pytest.fail(f"a transaction by two gateways: {exc}")
        for cluster in (source, target, third):
            _wait_for(cluster, topic, "a", "b", "c", "d")


def _wait_for(cluster: DevCluster, topic: str, *values: str) -> None:
    wait_until(lambda: committed_values(cluster.bootstrap, topic) == [list(values)], 60, what=f"{values}")
