"""Records of formats v0 and v1, as a real broker writes them, come out of the slow path as a consumer sees them."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from gateway.devcluster import DevCluster
from protocol.batch.header import read_batch_header
from protocol.batch.record_reader import read_records
from protocol.batch.reencode import Piece, convert
from tests.exact.migration import Migration
from tests.support.brokers.logs import create_topic, log_ends, read_logs
from tests.support.brokers.raw_fetch import fetch_raw
from tests.support.brokers.topic_configs import alter
from tests.support.mirror.mirror_lab import cluster

FORMATS = {"0.9.0": 0, "0.10.2": 1}
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
COUNT = 400
_KEPT = {"retention_ms": "-1"}  # records say that they are of 2017: retention would take them while the test looks


def write(bootstrap: str, topic: str, codec: str) -> None:
    """Records with null keys, null and empty values, and timestamps of their own; batches of several."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20, "batch.size": 3000}
    )
    for number in range(COUNT):
        value = None if number % 11 == 0 else b"" if number % 13 == 0 else b"value %d " % number * (number % 9)
        key = None if number % 5 == 0 else b"key %d" % number
        producer.produce(topic, key=key, value=value, timestamp=1_500_000_000_000 + number * 997)
        if number % 50 == 0:
            producer.flush(10)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", FORMATS)
async def test_as_a_broker_writes_them(failback_destination: DevCluster, topic: str, version: str, codec: str) -> None:
    create_topic(failback_destination.bootstrap, topic, partitions=1, **_KEPT, message_format_version=version)
    write(failback_destination.bootstrap, topic, codec)
    assert log_ends(failback_destination.bootstrap, topic, 1) == [COUNT]
    client = cluster(failback_destination.bootstrap)
    try:
        await client.start()
        raw = await fetch_raw(client, topic, 0)
    finally:
        await client.close()
    assert raw[16] == FORMATS[version]
    found, codecs = [], set()
    for piece in convert(memoryview(raw), 0):
        assert isinstance(piece, Piece)
        header = read_batch_header(piece.data)
        codecs.add(header.codec)
        offsets = [base + i for base, count in piece.runs for i in range(count)]
        records = read_records(header, memoryview(piece.data))
        found += [(o, r.key, r.value, r.timestamp_ms) for o, r in zip(offsets, records, strict=True)]
    (log,) = read_logs(failback_destination.bootstrap, topic, 1)
    assert found == [(r.offset, r.key, r.value, r.timestamp[1] if r.timestamp[0] else -1) for r in log]
    assert len(found) == COUNT
    assert CODECS[codec] in codecs <= {0, CODECS[codec]}  # a batch that would grow is not compressed


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", FORMATS)
def test_mirrored_and_promoted(old_migration: Migration, topic: str, version: str, codec: str) -> None:
    """Filled before, written to while it is mirrored; offsets stay equal."""
    source = old_migration.source.bootstrap
    create_topic(source, topic, partitions=1, **_KEPT, message_format_version=version)
    write(source, topic, codec)
    old_migration.mirror(topic)
    write(old_migration.gateway.bootstrap, topic, codec)
    old_migration.caught_up(topic)
    (before,) = old_migration.assert_same(topic)
    assert len(before) == 2 * COUNT
    old_migration.promote(topic)
    write(old_migration.gateway.bootstrap, topic, codec)
    _, (after,) = old_migration.logs(topic)
    assert after[: 2 * COUNT] == before
    assert len(after) == 3 * COUNT
    assert all(record.timestamp[1] > 0 for record in after[2 * COUNT :]), "the target has timestamps"


def test_a_log_of_several_formats(old_migration: Migration, topic: str) -> None:
    """As an upgrade leaves it: v0, then v1, then v2."""
    source = old_migration.source.bootstrap
    create_topic(source, topic, partitions=1, **_KEPT, message_format_version="0.9.0")
    for version, codec in (("0.9.0", "gzip"), ("0.10.2", "lz4"), ("2.8-IV1", "snappy")):
        alter(source, topic, {"message.format.version": version})
        write(source, topic, codec)
    old_migration.mirror(topic)
    old_migration.caught_up(topic)
    (log,) = old_migration.assert_same(topic)
    assert len(log) == 3 * COUNT


def test_log_append_time_in_v1(old_migration: Migration, topic: str) -> None:
    source = old_migration.source.bootstrap
    kinds = {"message_format_version": "0.10.2", "message_timestamp_type": "LogAppendTime"}
    create_topic(source, topic, partitions=1, **_KEPT, **kinds)
    write(source, topic, "gzip")
    write(source, topic, "none")
    old_migration.mirror(topic)
    old_migration.caught_up(topic)
    (log,) = old_migration.assert_same(topic)
    assert all(record.timestamp[1] > 1_600_000_000_000 for record in log)
