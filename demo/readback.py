"""Reads a whole topic back with confluent-kafka, straight from its cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from demo.access import IN_CLEAR, Access
from demo.checker import LogRecord, TopicLog
from demo.errors import DemoError
from demo.records import RecordId, digest, parse_value

BATCH = 1_000  # records per call: few enough to come without waiting for more


class LogEnds:
    """Asks a cluster for a topic's high watermarks, over one connection for as long as it lives."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, access: Access = IN_CLEAR) -> None:
        self._consumer = _consumer(bootstrap, access)
        self._partitions = [TopicPartition(topic, partition) for partition in range(partitions)]

    def read(self, timeout_s: float = 10.0) -> dict[int, int]:
        """The high watermark of each partition.

        Raises:
            KafkaException: The topic is unknown or the cluster did not answer in time.
        """
        return {
            partition.partition: self._consumer.get_watermark_offsets(partition, timeout=timeout_s)[1]
            for partition in self._partitions
        }

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()


def log_ends(bootstrap: str, topic: str, partitions: int, access: Access = IN_CLEAR) -> dict[int, int]:
    """The high watermark of each partition, asked once.

    Raises:
        DemoError: The cluster did not say.
    """
    ends = LogEnds(bootstrap, topic, partitions, access)
    try:
        return ends.read()
    except KafkaException as error:
        raise DemoError(f"the ends of {topic} on {bootstrap}: {error}") from error
    finally:
        ends.close()


def read_topic(
    bootstrap: str,
    topic: str,
    partitions: int,
    timeout_s: float,
    *,
    aborted: bool = False,
    access: Access = IN_CLEAR,
    parse: Callable[[bytes | None], RecordId] = parse_value,
) -> TopicLog:
    """Every record from each log's start to its end as of now; with `aborted`, those of aborted transactions too.

    Raises:
        DemoError: It took longer than `timeout_s` seconds, or a record is not one of the demo's.
    """
    ends = log_ends(bootstrap, topic, partitions, access)
    records: dict[int, list[LogRecord]] = {partition: [] for partition in range(partitions)}
    deadline = time.monotonic() + timeout_s
    consumer = _consumer(bootstrap, access, isolation="read_uncommitted" if aborted else "read_committed")
    try:
        left = _assign(consumer, topic, ends)
        names: dict[str, str] = {}  # one string object per producer, not one per record
        while left:
            if time.monotonic() > deadline:
                missing = {p: f"{records[p][-1].offset + 1 if records[p] else 0} of {ends[p]}" for p in sorted(left)}
                raise DemoError(f"waited {timeout_s:.0f} s for the rest of {topic} on {bootstrap}: {missing}")
            for message in consumer.consume(BATCH, timeout=0.5):
                partition, offset = message.partition() or 0, message.offset() or 0
                error = message.error()
                if error is not None:
                    if (
                        error.code() == KafkaError._PARTITION_EOF
                    ):  # a marker or an offset gap may be what a log ends with
                        left.discard(partition)
                    continue  # the others are transient: the deadline decides
                if offset < ends[partition]:
                    record = parse(message.value())
                    producer = names.setdefault(record.producer, record.producer)
                    content = digest(message.key(), message.value(), _headers(message), message.timestamp())
                    records[partition].append(LogRecord(offset, RecordId(producer, record.seq), content))
                if offset + 1 >= ends[partition]:
                    left.discard(partition)
    except ValueError as error:
        raise DemoError(f"{topic} on {bootstrap}: {error}") from error
    finally:
        consumer.close()
    return TopicLog(records, ends)


def _assign(consumer: Consumer, topic: str, ends: dict[int, int]) -> set[int]:
    """Start reading every partition at its log start; returns those that hold anything."""
    starts = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10.0)[0] for p in ends}
    consumer.assign([TopicPartition(topic, partition, start) for partition, start in starts.items()])
    return {partition for partition, end in ends.items() if end > starts[partition]}


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    """A message's headers, in order. The library's type allows for more than it ever returns."""
    headers = cast("list[tuple[str, bytes | None]] | None", message.headers())
    return headers or []


def _consumer(bootstrap: str, access: Access, *, isolation: str = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            **access,
            "client.id": "demo-readback",
            "group.id": "demo-readback",  # demanded by the library; nothing is joined or committed
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.max.bytes": 16 * 1024 * 1024,
            "fetch.wait.max.ms": 100,
            "check.crcs": True,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
