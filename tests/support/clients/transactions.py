"""Transactional clients for tests, and what is on a cluster when a consumer reads only what was committed."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

TIMEOUT_S = 30.0


def transactional_producer(bootstrap: str, transactional_id: str, **config: Any) -> Producer:
    """A librdkafka producer that has initialised its transactions. `config` takes `_` for `.`."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "log_level": 0,
            "linger.ms": 0,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def transact(producer: Producer, values: dict[str, list[str]], *, commit: bool = True) -> None:
    """One transaction: topic -> values, all to partition 0."""
    producer.begin_transaction()
    for topic, items in values.items():
        for item in items:
            producer.produce(topic, item.encode(), partition=0)
    producer.flush(TIMEOUT_S)
    (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_S)


def committed_values(bootstrap: str, topic: str, partitions: int = 1, *, aborted: bool = False) -> list[list[str]]:
    """The values of each partition, in order; with `aborted` also those of transactions that were not committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted" if aborted else "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found: list[list[str]] = [[] for _ in range(partitions)]
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    at_end: set[int] = set()
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while len(at_end) < partitions:
            assert time.monotonic() < deadline, f"{topic} could not be read to its end"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if (error := message.error()) is not None:
                assert error.name() == "_PARTITION_EOF", error
                at_end.add(message.partition() or 0)
                continue
            found[message.partition() or 0].append((message.value() or b"").decode())
    finally:
        consumer.close()
    return found
