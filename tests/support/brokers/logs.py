"""What a cluster holds, read back straight from its brokers, and the judgement over two of them."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaException, NewTopic

from tests.support.clients.writer import Writer
from tests.support.waiting import wait_until


class Record(NamedTuple):
    """All that a consumer can see of a record."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: tuple[int, int]
    headers: tuple[Any, ...]


_TRIES = 3
_CREATED_S = 20.0

Log = list[Record]
"""One partition from its start to its end."""


def create_topic(bootstrap: str, topic: str, *, partitions: int, **configs: str) -> None:
    """Create a topic with one replica. `configs` take `_` for `.`."""
    config = {name.replace("_", "."): value for name, value in configs.items()}
    create(bootstrap, NewTopic(topic, partitions, 1, config=config))


def create(bootstrap: str, new: NewTopic) -> None:
    """Create any topic, and wait until a broker that is asked knows it: the controller answers before they have heard.

    librdkafka gives a request up that it sent to a bootstrap address when it learns whose address that is: so it learns
    that first, by a question that it asks again itself. And a client that is made while brokers only just hear of each
    other may not send it at all (seen once: after 30 s no log of the three brokers had it). Then another one sends it.
    """
    for tries_left in reversed(range(_TRIES)):
        admin = AdminClient({"bootstrap.servers": bootstrap})  # it must live until the result is there
        try:
            admin.list_topics(timeout=_CREATED_S)
            admin.create_topics([new])[new.topic].result(_CREATED_S)
        except TimeoutError:
            if not tries_left:
                raise
        except KafkaException as exc:
            code = exc.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS and tries_left < _TRIES - 1:
                break
            if code != KafkaError._DESTROY_BROKER or not tries_left:
                raise
        else:
            break
    wait_until(lambda: _is_told(admin, new.topic), what=f"brokers to know {new.topic}")


def _is_told(admin: AdminClient, topic: str) -> bool:
    found = admin.list_topics(topic, timeout=30).topics[topic]
    return found.error is None and bool(found.partitions)


def log_ends(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """The high watermark of each partition. A broker that was too busy to be heard leads nothing for a while."""
    consumer = _consumer(bootstrap)
    ends: list[int] = []

    def told() -> bool:
        try:
            left = range(len(ends), partitions)
            ends.extend(consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1] for p in left)
        except KafkaException as exc:
            if exc.args[0].code() not in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE):
                raise
        return len(ends) == partitions

    try:
        wait_until(told, 30.0, what=f"the log ends of {topic}")
    finally:
        consumer.close()
    return ends


def read_logs(bootstrap: str, topic: str, partitions: int, deadline: float = 60.0) -> list[Log]:
    """Each partition of a topic from its start to its end as of now."""
    ends = log_ends(bootstrap, topic, partitions)
    logs: list[Log] = [[] for _ in range(partitions)]
    consumer = _consumer(bootstrap)
    end = time.monotonic() + deadline
    try:
        starts = [consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[0] for p in range(partitions)]
        consumer.assign([TopicPartition(topic, p, start) for p, start in enumerate(starts)])
        left = {p for p in range(partitions) if starts[p] < ends[p]}
        while left:
            assert time.monotonic() < end, f"{topic} on {bootstrap} could not be read to its end: {left}"
            for message in consumer.consume(1000, timeout=0.5):
                partition, offset = message.partition() or 0, message.offset() or 0
                at_end = (error := message.error()) is not None and error.code() == KafkaError._PARTITION_EOF
                assert error is None or at_end, error
                if offset >= (ends[partition] if at_end else ends[partition] - 1):  # a transaction ends with a marker
                    left.discard(partition)
                if not at_end and offset < ends[partition]:
                    headers = tuple(message.headers() or [])
                    logs[partition].append(Record(offset, message.key(), message.value(), message.timestamp(), headers))
    finally:
        consumer.close()
    return logs


def numbers(log: Log) -> list[int]:
    """The numbers that a Writer wrote, in the order of the log."""
    return [int((record.value or b"").split(b" ", 1)[0]) for record in log]


def assert_nothing_lost(writer: Writer, logs: list[Log]) -> None:
    """Everything the writer sent was acknowledged and is in the logs: once, in order, at the offset it was told."""
    assert not writer.failed, f"{len(writer.failed)} records failed: {next(iter(writer.failed.values()))}"
    assert len(writer.acknowledged) == writer.sent
    partitions = len(logs)
    for partition, log in enumerate(logs):
        expected = list(range(partition, writer.sent, partitions))
        assert numbers(log) == expected, first_difference(numbers(log), expected)
        told = [writer.acknowledged[number].offset for number in expected]
        there = [record.offset for record in log]
        assert told == there, first_difference(told, there)


def assert_equal(source: list[Log], target: list[Log]) -> None:
    """Both clusters hold the same records at the same offsets."""
    for partition, (one, other) in enumerate(zip(source, target, strict=True)):
        assert one == other, f"partition {partition}: {first_difference(one, other)}"


def first_difference(one: list[Any], other: list[Any]) -> str:
    """Where two lists part."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return f"at index {index} of {len(one)} and {len(other)}: {left!r} and {right!r}"
    return f"lengths {len(one)} and {len(other)}"


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readback",  # demanded by the library; nothing is joined or committed
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
            "check.crcs": True,
            "log_level": 0,
        }
    )
