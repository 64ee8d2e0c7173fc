"""What changes on the source while it is mirrored is followed, or stops the mirror with its reason."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tests.exact.migration import Migration
from tests.support.brokers.logs import assert_nothing_lost, create_topic, log_ends
from tests.support.brokers.topic_configs import alter, configs_of
from tests.support.clients.writer import Writer
from tests.support.waiting import wait_until

WITHIN_S = 10.0


def write(bootstrap: str, topic: str, count: int, first: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(first, first + count):
        producer.produce(topic, key=b"%d" % number, value=b"value %d" % number, partition=0)
    assert producer.flush(30) == 0


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # it must live until the result is there
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    where = TopicPartition(topic, 0, before)
    admin.delete_records([where])[where].result(30)


def log_start(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readback"})
    try:
        start: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[0]
        return start
    finally:
        consumer.close()


def test_partitions_added(migration: Migration, topic: str) -> None:
    """The target has them before a producer with keys can send a key elsewhere than one on the source does."""
    source, target = migration.source.bootstrap, migration.target.bootstrap
    create_topic(source, topic, partitions=1)
    migration.mirror(topic)
    write(migration.gateway.bootstrap, topic, 50)
    grow(source, topic, 4)
    began = time.monotonic()
    wait_until(lambda: len(log_ends_or_none(target, topic, 4)) == 4, 30.0, what="four partitions on the target")
    took_s = time.monotonic() - began
    print(f"followed after {took_s:.1f} s")  # noqa: T201 - what the test measured
    assert took_s < WITHIN_S, "clients look for partitions every 5 minutes"
    keys = [b"key %d" % n for n in range(40)]
    by_gateway = partitions_of(migration.gateway.bootstrap, topic, keys)
    assert by_gateway == partitions_of(source, topic, keys)
    assert set(by_gateway) == {0, 1, 2, 3}
    migration.caught_up(topic, 4)
    logs = migration.assert_same(topic, 4)
    assert sum(map(len, logs)) == 50 + 80


def log_ends_or_none(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """Of all partitions once each has a leader, else nothing."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=10).topics[topic].partitions
    with suppress(KafkaException):  # a broker knows of a partition before it leads it
        return log_ends(bootstrap, topic, partitions) if len(found) == partitions else []
    return []


def partitions_of(bootstrap: str, topic: str, keys: list[bytes]) -> list[int]:
    """Where a producer with keys sends each of them."""
    producer, found = Producer({"bootstrap.servers": bootstrap}), dict.fromkeys(keys, -1)

    def note(error: object, message: Any) -> None:
        assert error is None, error
        found[message.key()] = message.partition()

    for key in keys:
        producer.produce(topic, key=key, value=b"v", on_delivery=note)
    assert producer.flush(30) == 0
    return list(found.values())


def test_a_config_changed(migration: Migration, topic: str) -> None:
    source, target = migration.source.bootstrap, migration.target.bootstrap
    create_topic(source, topic, partitions=1)
    migration.mirror(topic)
    alter(source, topic, {"delete.retention.ms": "4242", "retention.ms": "123456789"})
    began = time.monotonic()
    wait_until(lambda: configs_of(target, topic)["delete.retention.ms"] == "4242", 30.0, what="the changed config")
    assert time.monotonic() - began < WITHIN_S
    migration.promote(topic)
    wait_until(lambda: configs_of(target, topic)["retention.ms"] == "123456789", 15.0, what="the retention set back")


def test_records_deleted_that_are_mirrored(migration: Migration, topic: str) -> None:
    """The mirror's log start follows: an offset that is in one log is in the other."""
    source, target = migration.source.bootstrap, migration.target.bootstrap
    create_topic(source, topic, partitions=1)
    write(source, topic, 200)
    migration.mirror(topic)
    migration.caught_up(topic)
    delete_records(source, topic, 120)
    wait_until(lambda: log_start(target, topic) == 120, 2 * WITHIN_S, what="the log start on the target")
    write(migration.gateway.bootstrap, topic, 10, 200)
    migration.caught_up(topic)
    (log,) = migration.assert_same(topic)
    assert (log[0].offset, len(log)) == (120, 90)


def paused(migration: Migration, topic: str) -> None:
    """A mirror of 100 records that stands still, while its source goes on to 200 and deletes what is below 150."""
    source = migration.source.bootstrap
    create_topic(source, topic, partitions=1)
    write(source, topic, 100)
    migration.mirror(topic)
    migration.caught_up(topic)
    operate(migration, topic, "pause")
    wait_until(lambda: migration.state(topic) == "PAUSED", 30.0)
    write(source, topic, 100, 100)
    delete_records(source, topic, 150)
    operate(migration, topic, "resume")


def operate(migration: Migration, topic: str, operation: str) -> None:
    path = f"/v3/links/{migration.link}/mirrors/{topic}:{operation}"
    answer = migration.gateway.api.post(path, json={})
    assert answer.is_success, answer.text


def test_records_deleted_before_they_were_mirrored(migration: Migration, topic: str) -> None:
    paused(migration, topic)
    error, message = migration.failed(topic)
    assert error == "SOURCE_RECORDS_DELETED"
    assert "deleted 50 records before they were mirrored" in message


def test_and_the_link_says_to_go_on(skipping: Migration, topic: str) -> None:
    """The loss is counted, shown and measured; what is left is mirrored, in order."""
    paused(skipping, topic)
    shown = wait_until(lambda: skipping.describe(topic)["records_lost"], 30.0, what="the loss in describe")
    assert shown == {"0": 50}
    skipping.caught_up(topic)
    (source,), (target,) = skipping.logs(topic)
    assert [r[1:] for r in source] == [r[1:] for r in target[-50:]]
    assert [r.value for r in target[-50:]] == [b"value %d" % n for n in range(150, 200)]
    metrics = skipping.gateway.api.get("/metrics").text
    assert f'lockgate_mirror_lost_records{{link="{skipping.link}",topic="{topic}"}} 50.0' in metrics
    assert skipping.describe(topic)["mode"] == "translate"


def test_a_long_open_transaction_shows(migration: Migration, topic: str) -> None:
    source = migration.source.bootstrap
    create_topic(source, topic, partitions=1)
    write(source, topic, 20)
    migration.mirror(topic)
    migration.caught_up(topic)
    producer = Producer({"bootstrap.servers": source, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value=b"in a transaction", partition=0)
    assert producer.flush(30) == 0

    def shown() -> str:
        found: str = migration.partitions(topic)[0]["waits_for"]
        return found if "producer id" in found else ""

    text = wait_until(shown, 60.0, what="the transaction in describe")
    print(text)  # noqa: T201 - what an operator sees
    assert text.startswith("waiting for transaction of producer id ")
    assert " since 20" in text
    producer.commit_transaction(30)
    wait_until(lambda: not migration.partitions(topic)[0]["waits_for"], 15.0, what="nothing to wait for")
    write(source, topic, 1, 99)  # behind the marker
    migration.caught_up(topic)
    migration.assert_same(topic, offsets=False)


def test_writing_goes_on_while_things_change(migration: Migration, topic: str) -> None:
    """A config, a partition and deleted records in the middle of the stream."""
    source = migration.source.bootstrap
    create_topic(source, topic, partitions=2)
    migration.mirror(topic)
    with Writer(migration.gateway.bootstrap, topic, partitions=2) as writer:
        writer.wait_for_acks(200)
        alter(source, topic, {"segment.bytes": "1048576"})
        grow(source, topic, 3)
        writer.wait_for_acks(4000)
    migration.caught_up(topic, 3)
    logs = migration.assert_same(topic, 3)
    assert_nothing_lost(writer, logs[:2])
