"""Odd topics, mirrored and promoted: what a consumer sees is the same on both clusters."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.exact.migration import Migration
from tests.support.brokers.logs import create_topic, log_ends
from tests.support.brokers.topic_configs import alter, configs_of, own_configs_of
from tests.support.waiting import wait_until

LONG_AGO = 1_000_000_000_000
DAY_MS = 86_400_000


def write(bootstrap: str, topic: str, records: list[dict[str, Any]], **config: Any) -> None:
    """Write to partition 0 and wait for the acknowledgements."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **config})
    failed: list[str] = []
    for record in records:
        producer.produce(topic, partition=0, on_delivery=lambda e, _: failed.append(str(e)) if e else None, **record)
        producer.poll(0)
    assert producer.flush(30) == 0
    assert not failed, failed[0]


def numbered(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"key": b"%d" % n, "value": b"value %d " % n * 5} for n in range(first, first + count)]


def test_log_append_time(migration: Migration, topic: str) -> None:
    """The source's timestamps stay, before and after the promote; afterwards the target stamps what comes."""
    source = migration.source.bootstrap
    create_topic(source, topic, partitions=1, message_timestamp_type="LogAppendTime")
    old = [record | {"timestamp": LONG_AGO} for record in numbered(300)]
    write(source, topic, old, **{"compression.type": "lz4"})
    migration.mirror(topic)
    write(migration.gateway.bootstrap, topic, old)
    migration.caught_up(topic)
    (before,) = migration.assert_same(topic)
    assert all(record.timestamp[1] > LONG_AGO for record in before)
    migration.promote(topic)
    (after,) = migration.assert_same(topic)
    assert after == before
    write(migration.gateway.bootstrap, topic, old[:5])
    (_, (log,)) = migration.logs(topic)
    assert [record.timestamp[0] for record in log[-5:]] == [2] * 5, "LogAppendTime again"
    assert all(record.timestamp[1] >= before[-1].timestamp[1] for record in log[-5:])


def test_timestamps_that_the_target_would_refuse(migration: Migration, topic: str) -> None:
    """Records from 2001 and from next year, in a topic that later accepted only those of an hour."""
    source = migration.source.bootstrap
    create_topic(source, topic, partitions=1)
    now = time.time_ns() // 1_000_000
    moments = [LONG_AGO, now, now + 365 * DAY_MS, 0]
    write(source, topic, [record | {"timestamp": moments[n % 4]} for n, record in enumerate(numbered(40))])
    alter(source, topic, {"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "3600000"})
    migration.mirror(topic)
    migration.caught_up(topic)
    migration.assert_same(topic)
    migration.promote(topic)
    names = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"

    def limits() -> set[str]:
        configs = configs_of(migration.target.bootstrap, topic)
        return {configs[name] for name in names}

    wait_until(lambda: limits() == {"3600000"}, 15.0, what="the limits set back")


def test_batches_larger_than_the_limit_is_now(migration: Migration, topic: str) -> None:
    source = migration.source.bootstrap
    create_topic(source, topic, partitions=1, max_message_bytes="5000000")
    large = [{"value": bytes([n]) * 3_000_000} for n in range(3)]
    write(source, topic, large, **{"message.max.bytes": 5_000_000})
    alter(source, topic, {"max.message.bytes": "20000"})
    write(source, topic, [{"value": b"x" * 19_000}])
    migration.mirror(topic)
    migration.caught_up(topic)
    migration.assert_same(topic)
    migration.promote(topic)
    limit = "max.message.bytes"
    wait_until(lambda: configs_of(migration.target.bootstrap, topic)[limit] == "20000", 15.0, what="the limit set back")


def test_headers_nulls_and_nothing(migration: Migration, topic: str) -> None:
    """Null and empty keys and values, headers of every kind, a name twice, nothing at all."""
    source = migration.source.bootstrap
    create_topic(source, topic, partitions=1)
    fields = (None, b"", b"\0", b"x")
    records: list[dict[str, Any]] = [{"key": key, "value": value} for key in fields for value in fields]
    headers = [("h", b"1"), ("h", None), ("", b""), ("ключ", b"\xff")]
    records += [record | {"headers": headers} for record in records]
    write(source, topic, records)
    migration.mirror(topic)
    write(migration.gateway.bootstrap, topic, records)
    migration.caught_up(topic)
    (log,) = migration.assert_same(topic)
    assert len(log) == 64
    assert {(record.key, record.value) for record in log} == {(key, value) for key in fields for value in fields}


@pytest.mark.parametrize("size", [1_000, 1_048_588])
def test_records_of_max_message_bytes(migration: Migration, topic: str, size: int) -> None:
    """The largest batch that the source takes, to the byte."""
    source = migration.source.bootstrap
    create_topic(source, topic, partitions=1, max_message_bytes=str(size))
    overhead = 61 + 10 + (size > 8_000) * 3  # a batch header, and a record's own fields
    fits = wait_until(lambda: largest(source, topic, size - overhead), 30.0)
    assert fits >= size - overhead - 20
    migration.mirror(topic)
    write(migration.gateway.bootstrap, topic, [{"value": b"x" * fits}], **{"message.max.bytes": 2 * size})
    migration.caught_up(topic)
    migration.assert_same(topic)


def largest(bootstrap: str, topic: str, upper: int) -> int:
    """The largest value, from `upper` + 20 bytes down, that the topic takes as a batch of its own."""
    for size in range(upper + 20, upper - 20, -1):
        try:
            write(bootstrap, topic, [{"value": b"x" * size}], **{"message.max.bytes": 2 * upper + 2000})
        except AssertionError:
            continue
        return size
    return 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_stay_compressed_as_they_are(migration: Migration, topic: str, codec: str) -> None:
    """From a producer of any codec to a target topic that would compress otherwise."""
    source = migration.source.bootstrap
    create_topic(source, topic, partitions=1)
    write(source, topic, numbered(500), **{"compression.type": codec})
    migration.mirror(topic)
    migration.caught_up(topic)
    migration.assert_same(topic)
    assert configs_of(migration.target.bootstrap, topic)["compression.type"] == "producer"


def test_zstd_to_a_topic_that_compresses_otherwise(migration: Migration, topic: str) -> None:
    """The topic is there, empty, with compression.type=gzip: that holds again after the promote."""
    source, target = migration.source.bootstrap, migration.target.bootstrap
    create_topic(source, topic, partitions=1)
    create_topic(target, topic, partitions=1, compression_type="gzip")
    write(source, topic, numbered(500), **{"compression.type": "zstd"})
    migration.mirror(topic)
    assert configs_of(target, topic)["compression.type"] == "producer"
    migration.caught_up(topic)
    migration.assert_same(topic)
    migration.promote(topic)
    wait_until(lambda: configs_of(target, topic)["compression.type"] == "gzip", 15.0, what="the config set back")
    write(migration.gateway.bootstrap, topic, numbered(10, 500), **{"compression.type": "zstd"})
    assert log_ends(target, topic, 1) == [510]


def test_everything_lifted_is_set_back(migration: Migration, topic: str) -> None:
    """What the topic has of its own on the target after the promote is what is synced, and nothing else."""
    source, target = migration.source.bootstrap, migration.target.bootstrap
    create_topic(source, topic, partitions=1, retention_ms="777777777", max_message_bytes="1234567")
    migration.mirror(topic)
    lifted = configs_of(target, topic)
    assert (lifted["retention.ms"], lifted["max.message.bytes"]) == ("-1", str(2**31 - 1))
    migration.promote(topic)
    wait_until(lambda: configs_of(target, topic)["retention.ms"] == "777777777", 15.0, what="the configs set back")
    own = own_configs_of(target, topic)
    assert (own["retention.ms"], own["max.message.bytes"]) == ("777777777", "1234567")
    assert own["message.timestamp.type"] == "CreateTime"
    assert "compression.type" not in own
