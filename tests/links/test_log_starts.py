"""What an origin deletes is deleted on its copy, whichever way the mirror goes, in both modes, paused or not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from gateway.devcluster import DevCluster
from tests.exact.migration import Migration
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

WITHIN_S = 60.0
PAUSED_S = 150.0  # a paused mirror is looked at once a minute


@pytest.fixture(scope="module")
def west(source: DevCluster, target: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Migration]:
    """A gateway with a link that looks every second."""
    folder, name = tmp_path_factory.mktemp("gateway"), f"west-{uuid.uuid4().hex[:8]}"
    made = Migration(folder, source, target, name, {"topic_config_sync_ms": "1000"})
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.gateway.close()
        print(made.gateway.log.read_text(errors="replace")[-6000:])  # noqa: T201 - shown when a test failed


def write(bootstrap: str, topic: str, count: int, *, transactional: bool = False) -> None:
    """So many records; in one transaction, which takes an offset more."""
    settings = {"bootstrap.servers": bootstrap}
    if transactional:
        settings["transactional.id"] = f"tx-{topic}-{uuid.uuid4().hex[:6]}"
    producer = Producer(settings)
    if transactional:
        producer.init_transactions(30)
        producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, key=b"%d" % number, value=b"value %d" % number)
    if transactional:
        producer.commit_transaction(30)
    assert producer.flush(30) == 0


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    where = TopicPartition(topic, 0, before)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # it must live until the result is there
    admin.delete_records([where])[where].result(30)


def log_start(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readback"})
    try:
        start: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[0]
        return start
    finally:
        consumer.close()


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    return [record.value for record in read_logs(bootstrap, topic, 1)[0]]


def test_forward_in_mode_preserve_and_while_paused(west: Migration, topic: str) -> None:
    source, target = west.source.bootstrap, west.target.bootstrap
    create_topic(source, topic, partitions=1)
    write(source, topic, 100)
    west.mirror(topic)
    west.caught_up(topic)
    delete_records(source, topic, 20)
    wait_until(lambda: log_start(target, topic) == 20, WITHIN_S, what="the start while it runs")
    answer = west.gateway.api.post(f"/v3/links/{west.link}/mirrors/{topic}:pause")
    assert answer.is_success, answer.text
    delete_records(source, topic, 60)
    wait_until(lambda: log_start(target, topic) == 60, PAUSED_S, what="the start while it is paused")
    answer = west.gateway.api.post(f"/v3/links/{west.link}/mirrors/{topic}:resume")
    assert answer.is_success, answer.text
    write(source, topic, 10)
    west.caught_up(topic)
    west.assert_same(topic)


def test_back_in_mode_translate(west: Migration, topic: str) -> None:
    """Markers of transactions are not copied: the offsets of both logs differ, in both directions."""
    source, target = west.source.bootstrap, west.target.bootstrap
    create_topic(source, topic, partitions=1)
    for _ in range(5):
        write(source, topic, 10, transactional=True)
    west.mirror(topic)
    west.caught_up(topic)
    assert west.describe(topic)["mode"] == "translate"
    west.promote(topic)
    answer = west.gateway.api.post(f"/v3/links/{west.link}/mirrors/{topic}:reverse-and-start-mirror")
    assert answer.is_success, answer.text
    wait_until(lambda: (west.state(topic), west.describe(topic)["mirror_direction"]) == ("ACTIVE", "REVERSE"), WITHIN_S)
    for _ in range(5):
        write(west.gateway.bootstrap, topic, 10, transactional=True)
    wait_until(lambda: len(values(source, topic)) == 100, WITHIN_S, what="all of it on the source")

    delete_records(target, topic, 25)  # of the first period: on the source two markers are before it
    wait_until(lambda: values(source, topic) == values(target, topic), WITHIN_S, what="the first period's start")
    assert len(values(source, topic)) == 75

    delete_records(target, topic, 72)  # of the second one: on the target two markers are before it
    wait_until(lambda: values(source, topic) == values(target, topic), WITHIN_S, what="the second period's start")
    assert len(values(source, topic)) == 30
