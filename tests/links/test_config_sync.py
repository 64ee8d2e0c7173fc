"""Configs of mirror topics between real clusters: what is synced, what is the topic's own, what a promote sets."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaException

from gateway.devcluster import DevCluster
from tests.exact.migration import Migration
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.brokers.topic_configs import alter, configs_of, own_configs_of
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

WITHIN_S = 60.0
SLOW = "86400000"  # no sync comes by itself within a test


@pytest.fixture(scope="module")
def west(source: DevCluster, target: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Migration]:
    """A gateway with a link of default options."""
    made = Migration(tmp_path_factory.mktemp("gateway"), source, target, f"west-{uuid.uuid4().hex[:8]}")
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.gateway.close()
        print(made.gateway.log.read_text(errors="replace")[-6000:])  # noqa: T201 - shown when a test failed


def linked(west: Migration, **configs: str) -> Migration:
    return west.with_link(f"l-{uuid.uuid4().hex[:8]}", **configs)


def write(bootstrap: str, topic: str, *records: tuple[bytes | None, bytes | None], timestamp_ms: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in records:
        producer.produce(topic, key=key, value=value, timestamp=timestamp_ms)
    assert producer.flush(30) == 0


def test_what_is_included_is_synced_and_nothing_else(west: Migration, topic: str) -> None:
    """`topic.config.sync.include` names what follows beside the configs that always do."""
    link = linked(
        west, topic_config_sync_include="segment.ms,retention.ms,retention.bytes", topic_config_sync_ms="1000"
    )
    source, target = west.source.bootstrap, west.target.bootstrap
    create_topic(source, topic, partitions=1, segment_ms="1111111", delete_retention_ms="2222222")
    link.mirror(topic)
    found = configs_of(target, topic)
    assert (found["segment.ms"], found["delete.retention.ms"]) == ("1111111", "86400000")

    alter(source, topic, {"segment.ms": "3333333", "delete.retention.ms": "4444444", "max.message.bytes": "2000000"})
    wait_until(lambda: configs_of(target, topic)["segment.ms"] == "3333333", WITHIN_S, what="the included config")
    assert configs_of(target, topic)["delete.retention.ms"] == "86400000"
    link.promote(topic)
    wait_until(
        lambda: configs_of(target, topic)["max.message.bytes"] == "2000000", WITHIN_S, what="what always follows"
    )
    west.gateway.delete_link(link.link)


def test_a_change_right_before_a_promote_is_not_lost(west: Migration, topic: str) -> None:
    """No sync of the link comes in between: the promote reads the configs itself."""
    link = linked(west, topic_config_sync_ms=SLOW)
    source, target = west.source.bootstrap, west.target.bootstrap
    create_topic(source, topic, partitions=1)
    write(source, topic, (b"k", b"v"))
    link.mirror(topic)
    link.caught_up(topic)
    alter(source, topic, {"retention.ms": "123456789", "delete.retention.ms": "4242"})
    link.promote(topic)
    wait_until(lambda: configs_of(target, topic)["retention.ms"] == "123456789", WITHIN_S, what="what was lifted")
    assert configs_of(target, topic)["delete.retention.ms"] == "4242"
    assert link.describe(topic)["error_message"] == ""
    west.gateway.delete_link(link.link)


def test_retention_that_is_left_out_is_the_mirror_topics_own(west: Migration, topic: str) -> None:
    """It is neither lifted nor synced, nor set at the promote; and the target deletes by it while it is mirrored."""
    link = linked(west, topic_config_sync_include="delete.retention.ms", topic_config_sync_ms="1000")
    source, target = west.source.bootstrap, west.target.bootstrap
    create_topic(source, topic, partitions=1, retention_ms="7200000", retention_bytes="1000000000")
    create_topic(target, topic, partitions=1, retention_ms="90000000")
    there = AdminClient({"bootstrap.servers": target})  # a broker hears of it after the controller
    wait_until(lambda: topic in there.list_topics(timeout=10).topics, WITHIN_S, what="the target's topic")
    write(source, topic, (b"k", b"v"))
    link.mirror(topic)
    link.caught_up(topic)
    own = own_configs_of(target, topic)
    assert own["retention.ms"] == "90000000"
    assert "retention.bytes" not in own
    alter(source, topic, {"retention.ms": "7300000", "delete.retention.ms": "4242"})
    wait_until(lambda: configs_of(target, topic)["delete.retention.ms"] == "4242", WITHIN_S, what="a sync")
    link.promote(topic)
    wait_until(lambda: own_configs_of(target, topic).get("max.message.bytes") not in (None, str(2**31 - 1)), WITHIN_S)
    own = own_configs_of(target, topic)
    assert (own["retention.ms"], own.get("retention.bytes")) == ("90000000", None)
    assert [record.value for record in read_logs(target, topic, 1)[0]] == [b"v"]
    west.gateway.delete_link(link.link)


def test_a_longer_retention_of_its_own_keeps_what_the_source_deletes(west: Migration, topic: str) -> None:
    """Log starts are not followed then: the small edge and the large centre."""
    link = linked(west, topic_config_sync_include="delete.retention.ms", topic_config_sync_ms="1000")
    source, target = west.source.bootstrap, west.target.bootstrap
    create_topic(source, topic, partitions=1)
    write(source, topic, *((b"%d" % number, b"v") for number in range(10)))
    link.mirror(topic)
    link.caught_up(topic)
    where = TopicPartition(topic, 0, 6)
    admin = AdminClient({"bootstrap.servers": source})  # it must live until the result is there
    admin.delete_records([where])[where].result(30)
    write(source, topic, (b"last", b"v"))
    link.caught_up(topic)
    alter(source, topic, {"delete.retention.ms": "4242"})
    wait_until(lambda: configs_of(target, topic)["delete.retention.ms"] == "4242", WITHIN_S, what="a sync after that")
    assert len(read_logs(source, topic, 1)[0]) == 5
    assert [record.offset for record in read_logs(target, topic, 1)[0]] == list(range(11))
    link.promote(topic)
    write(west.gateway.bootstrap, topic, (b"after", b"v"))
    assert [record.offset for record in read_logs(target, topic, 1)[0]] == list(range(12))
    west.gateway.delete_link(link.link)


def test_the_links_replication_factor(source: DevCluster, topic: str, tmp_path: Path) -> None:
    """Of mirror topics, whatever the source has; more than the target has brokers is refused."""
    with running_cluster("three", "4.3.1", tmp_path / "three", brokers=3) as three:
        gateway = GatewayProcess(tmp_path, three.bootstrap)
        try:
            gateway.start()
            for factor in ("2", "4"):
                gateway.create_link(f"l{factor}", source.bootstrap, replication_factor=factor)
            create_topic(source.bootstrap, topic, partitions=1)
            refused = gateway.api.post("/v3/links/l4/mirrors", json={"source_topic_name": topic})
            assert refused.status_code == 400
            assert "replication.factor is 4, but the target has 3 broker(s)" in refused.json()["message"]
            gateway.create_mirror("l2", topic)
            found = AdminClient({"bootstrap.servers": three.bootstrap}).list_topics(topic, timeout=10).topics[topic]
            assert len(found.partitions[0].replicas) == 2
            gateway.delete_link("l2")
        finally:
            gateway.close()
            print(gateway.log.read_text(errors="replace")[-4000:])  # noqa: T201 - shown when the test failed


def test_a_topic_that_is_compacted_and_deleted(west: Migration, topic: str) -> None:
    """`compact,delete` is a compacted topic: mode translate, its policy is the source's, its records are the same."""
    source, target = west.source.bootstrap, west.target.bootstrap
    create_topic(source, topic, partitions=1, cleanup_policy="compact,delete", retention_ms="7200000")
    write(source, topic, *((b"%d" % (number % 5), b"v%d" % number) for number in range(50)))
    west.mirror(topic)
    west.caught_up(topic)
    assert west.describe(topic)["mode"] == "translate"
    assert set(configs_of(target, topic)["cleanup.policy"].split(",")) == {"compact", "delete"}
    west.promote(topic)
    wait_until(lambda: configs_of(target, topic)["retention.ms"] == "7200000", WITHIN_S, what="the retention set back")
    kept = {record.key: record.value for record in read_logs(target, topic, 1)[0]}
    assert kept == {b"%d" % key: b"v%d" % (45 + key) for key in range(5)}


def test_a_record_without_a_key_from_before_a_topic_was_compacted(west: Migration, topic: str) -> None:
    """The target refuses it; the mirror FAILs with the reason, and copies nothing behind it."""
    source = west.source.bootstrap
    create_topic(source, topic, partitions=1)
    write(source, topic, (b"a", b"1"), (None, b"2"), (b"c", b"3"))
    alter(source, topic, {"cleanup.policy": "compact"})
    with pytest.raises(KafkaException):
        raise _refusal(source, topic)
    west.mirror(topic)
    error, message = west.failed(topic)
    assert error == "TARGET_REJECTED", message


def _refusal(bootstrap: str, topic: str) -> Exception:
    """What a broker says of such a record by now."""
    found: list[Exception] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value=b"x", on_delivery=lambda error, _: found.append(KafkaException(error)))
    producer.flush(30)
    return found[0]
