"""What cannot be mirrored exactly stops, and says why: never a silent skip."""

from __future__ import annotations

import asyncio

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from gateway.devcluster import DevCluster
from gateway.kafka.admin import create_partitions
from gateway.kafka.offsets import delete_records
from gateway.state.records import MirrorError
from tests.support.brokers.logs import create_topic, log_ends
from tests.support.mirror.mirror_lab import LINK, mirror_lab
from tests.support.waiting import wait_until, wait_until_async

EQUAL = {"mirror.offsets": "preserve"}


def write(bootstrap: str, topic: str, count: int = 100, size: int = 100, **config: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    for number in range(count):
        producer.produce(topic, value=b"%d " % number + b"x" * size, partition=0)
    assert producer.flush(30) == 0


async def test_a_transactional_batch(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=2)
    write(source.bootstrap, topic)
    producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value=b"in a transaction", partition=0)
    producer.commit_transaction(30)
    async with mirror_lab(source.bootstrap, target.bootstrap, configs=EQUAL) as lab:
        await lab.mirror(topic)
        error, message = await lab.failure()
        assert error is MirrorError.UNSUPPORTED_MESSAGE_FORMAT
        assert "offset 100 is transactional" in message
        one, other = lab.status(topic)
        assert (one.phase, other.phase) == ("failed", "copying")  # a partition fails alone
        assert one.last_error == message


async def test_log_append_time(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1, message_timestamp_type="LogAppendTime")
    write(source.bootstrap, topic)
    async with mirror_lab(source.bootstrap, target.bootstrap, configs=EQUAL) as lab:
        await lab.mirror(topic)
        error, message = await lab.failure()
        assert error is MirrorError.UNSUPPORTED_MESSAGE_FORMAT
        assert "LogAppendTime" in message


async def test_records_too_large_for_the_target(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    write(source.bootstrap, topic, 10, size=5000, **{"batch.size": 20_000, "linger.ms": 50})
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        await lab.mirror(topic, max_message_bytes="2000")
        error, message = await lab.failure()
        assert error is MirrorError.TARGET_REJECTED
        assert "MESSAGE_TOO_LARGE" in message


async def test_a_foreign_writer_while_mirroring(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    write(source.bootstrap, topic)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        await lab.mirror(topic)
        await lab.caught_up(topic)
        await asyncio.to_thread(write, target.bootstrap, topic, 3)
        await asyncio.to_thread(write, source.bootstrap, topic, 5)
        error, message = await lab.failure()
        assert error is MirrorError.TARGET_DIVERGED
        assert "offset 100 landed at target offset 103" in message


async def test_a_foreign_writer_while_stopped(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    write(source.bootstrap, topic)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        record = await lab.mirror(topic)
        await lab.caught_up(topic)
        await lab.engine.stop_mirror(LINK, topic)
        await asyncio.to_thread(write, target.bootstrap, topic, 3)
        await asyncio.to_thread(write, source.bootstrap, topic, 500)  # the source is ahead all the same
        lab.engine.start_mirror(record)
        error, message = await lab.failure()
        assert error is MirrorError.TARGET_DIVERGED
        assert "was written by another producer" in message


async def test_records_deleted_before_they_were_copied(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    write(source.bootstrap, topic)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        record = await lab.mirror(topic)
        await lab.caught_up(topic)
        await lab.engine.stop_mirror(LINK, topic)
        await asyncio.to_thread(write, source.bootstrap, topic)
        await delete_records(lab.source, {(topic, 0): 150})
        lab.engine.start_mirror(record)
        error, message = await lab.failure()
        assert error is MirrorError.SOURCE_RECORDS_DELETED
        assert "deleted 50 records" in message


async def test_records_deleted_before_the_mirror_began(source: DevCluster, target: DevCluster, topic: str) -> None:
    """Nothing is copied yet: the mirror begins at the new start."""
    create_topic(source.bootstrap, topic, partitions=1)
    write(source.bootstrap, topic)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        record = await lab.record(topic)
        await delete_records(lab.source, {(topic, 0): 60})
        lab.engine.start_mirror(record)
        await lab.caught_up(topic)
        # The copy begins at the batch that holds offset 60, so the target is trimmed after the copy reached it.
        await wait_until_async(lambda: lab.events.readable == [topic], what="the mirror to be settled")
        assert lab.status(topic)[0].target_end == 100


async def test_the_source_topic_was_created_again(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    write(source.bootstrap, topic)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        await lab.mirror(topic)
        await lab.caught_up(topic)
        await asyncio.to_thread(create_again, source.bootstrap, topic)
        error, message = await lab.failure()
        assert error is MirrorError.SOURCE_TOPIC_ID_CHANGED
        assert "created again" in message
        assert log_ends(target.bootstrap, topic, 1) == [100]


def create_again(bootstrap: str, topic: str) -> None:
    """Delete and create, and write more than there was before: only the topic id tells."""
    delete(bootstrap, topic)

    def created() -> bool:
        try:
            create_topic(bootstrap, topic, partitions=1)
        except KafkaException:  # the old one is not gone yet
            return False
        return True

    wait_until(created)
    write(bootstrap, topic, 200)


def delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)


async def test_the_source_topic_is_gone(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    write(source.bootstrap, topic)
    patience = {"cluster.link.retry.timeout.ms": "3000"}
    async with mirror_lab(source.bootstrap, target.bootstrap, configs=patience) as lab:
        await lab.mirror(topic)
        await lab.caught_up(topic)
        await asyncio.to_thread(delete, source.bootstrap, topic)
        error, message = await lab.failure()
        assert error is MirrorError.SOURCE_TOPIC_MAY_BE_DELETED
        assert "has not known the topic" in message


async def test_the_source_grew(source: DevCluster, target: DevCluster, topic: str) -> None:
    """New partitions are not mirrored by themselves; the old ones go on."""
    create_topic(source.bootstrap, topic, partitions=1)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        await lab.mirror(topic)
        await lab.caught_up(topic)
        await create_partitions(lab.source, topic, 2)
        await asyncio.to_thread(write, source.bootstrap, topic)
        await lab.caught_up(topic)
        assert not lab.events.failures


async def test_an_engine_does_not_mind_an_unreachable_source(target: DevCluster, topic: str, unused_port) -> None:
    async with mirror_lab(f"127.0.0.1:{unused_port()}", target.bootstrap, direct_source=target.bootstrap) as lab:
        await wait_until_async(lambda: lab.events.availability == [False], what="a lost source")
