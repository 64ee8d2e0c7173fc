"""A source of Kafka 2.8.2 with ZooKeeper: a whole migration away from it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, assert_nothing_lost, create_topic, read_logs
from tests.support.clients.writer import Writer
from tests.support.gateways.gateway import GatewayProcess
from tests.support.mirror.mirror_lab import mirror_lab
from tests.support.waiting import wait_until


async def test_a_plain_topic(failback_destination: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(failback_destination.bootstrap, topic, partitions=2)
    async with mirror_lab(failback_destination.bootstrap, target.bootstrap) as lab:
        with Writer(failback_destination.bootstrap, topic, partitions=2) as writer:
            await asyncio.to_thread(writer.wait_for_acks, 200)
            await lab.mirror(topic)
            await asyncio.to_thread(writer.wait_for_acks, 500)
        await lab.caught_up(topic)
    assert_equal(*(read_logs(each.bootstrap, topic, 2) for each in (failback_destination, target)))


def test_a_migration_away_from_it(
    failback_destination: DevCluster, target: DevCluster, topic: str, tmp_path: Path
) -> None:
    """Producers through the gateway, a group carried over, the topic promoted."""
    create_topic(failback_destination.bootstrap, topic, partitions=2)
    gateway = GatewayProcess(tmp_path, target.bootstrap)
    link = f"link-{topic}"
    try:
        gateway.start()
        gateway.create_link(link, failback_destination.bootstrap)
        gateway.create_mirror(link, topic)
        with Writer(gateway.bootstrap, topic, partitions=2) as writer:
            writer.wait_for_acks(300)
            committed = commit_on(failback_destination.bootstrap, topic, 50)
            consumer = joined(gateway.bootstrap, topic)
            first = wait_until(lambda: consumer.poll(0.5), 60.0, what="the group on the target")
            assert first is not None
            assert first.offset() == committed[first.partition() or 0]
            consumer.close()
            gateway.promote(link, topic)
            wait_until(lambda: gateway.mirror(link, topic)["mirror_status"] == "STOPPED", 60.0, what="STOPPED")
            writer.wait_for_acks(300)
        source, moved = (read_logs(each.bootstrap, topic, 2) for each in (failback_destination, target))
        assert_nothing_lost(writer, moved)
        assert_equal(source, [log[: len(source[partition])] for partition, log in enumerate(moved)])
        gateway.delete_link(link)
    finally:
        gateway.close()
        print(gateway.log.read_text(errors="replace")[-4000:])  # noqa: T201 - pytest shows it when the test failed


def joined(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.subscribe([topic])
    return consumer


def commit_on(bootstrap: str, topic: str, offset: int) -> dict[int, int]:
    """The group reads on the old cluster, commits and leaves."""
    consumer = joined(bootstrap, topic)
    wait_until(lambda: consumer.poll(0.2) is not None or consumer.assignment(), 30.0, what="an assignment")
    consumer.commit(offsets=[TopicPartition(topic, p, offset) for p in range(2)], asynchronous=False)
    consumer.close()
    return dict.fromkeys(range(2), offset)
