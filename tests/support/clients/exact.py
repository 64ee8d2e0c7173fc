"""Two clusters held against each other record by record, by a client's eyes, and offset by offset through the map."""

from __future__ import annotations

import time
from itertools import pairwise

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from gateway.mirror.offset_map.rules.offset_map import OffsetMap, TranslationRule
from tests.support.brokers.logs import Log, Record, first_difference


def read_visible(bootstrap: str, topic: str, partition: int = 0, *, deadline: float = 60.0) -> Log:
    """What a consumer with isolation level read_committed reads of a partition, from its start to its end as of now.

    Unlike `logs.read_logs` it may end in offsets without a record.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "exact",  # demanded by the library; nothing is joined or committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    log: Log = []
    end = time.monotonic() + deadline
    try:
        start = _log_start(consumer, TopicPartition(topic, partition), end)
        consumer.assign([TopicPartition(topic, partition, start)])
        while time.monotonic() < end:
            for message in consumer.consume(1000, timeout=0.5):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return log
                assert error is None, error
                headers = tuple(message.headers() or [])
                log.append(Record(message.offset() or 0, message.key(), message.value(), message.timestamp(), headers))
    finally:
        consumer.close()
    raise AssertionError(f"{topic}-{partition} on {bootstrap} could not be read to its end")


def _log_start(consumer: Consumer, partition: TopicPartition, end: float) -> int:
    """A broker that has just started may not know of a partition yet. `end`: monotonic seconds."""
    while True:
        try:
            start, _ = consumer.get_watermark_offsets(partition, timeout=10)
        except KafkaException as exc:
            if time.monotonic() >= end:
                raise AssertionError(f"{partition.topic}-{partition.partition}: {exc}") from exc
        else:
            return int(start)


def contents(log: Log) -> list[tuple[object, ...]]:
    """Key, value, timestamp and headers of each record."""
    return [(record.key, record.value, record.timestamp[1], record.headers) for record in log]


def assert_same_records(source: Log, target: Log) -> None:
    """The same records in the same order, whatever their offsets."""
    assert contents(source) == contents(target), first_difference(contents(source), contents(target))


def assert_compacted_alike(source: Log, target: Log) -> None:
    """Of a log that both clusters compact by themselves: all of the source is on the target, in order.

    What the source has alone was superseded there: a later record of the target has its key.
    """
    copied = contents(target)
    at = 0
    for record in contents(source):
        try:
            at = copied.index(record, at) + 1
        except ValueError:
            superseded = any(later[0] == record[0] for later in copied[at:])
            assert superseded, f"not on the target, or out of order: {record}"


def assert_map(offsets: OffsetMap, source: Log, target: Log) -> None:
    """Each record of the source is where the map says, and each hole leads to the next record; and back."""
    at = {record.offset: content for record, content in zip(target, contents(target), strict=True)}
    for record, content in zip(source, contents(source), strict=True):
        found = offsets.to_target(record.offset)
        assert found.rule is TranslationRule.EXACT, (record, found)
        assert at[found.offset] == content, (record, found)
        assert offsets.to_source(found.offset) == (record.offset, TranslationRule.EXACT)
    for before, after in pairwise(record.offset for record in source):
        for gap in {before + 1, (before + after) // 2, after - 1} - {before, after}:
            found = offsets.to_target(gap)
            assert found.offset <= offsets.to_target(after).offset
            assert found.rule in (
                TranslationRule.NEXT_RECORD,
                TranslationRule.EXACT,
            )  # exact: compacted away on the source since
