"""Mode translate between real brokers: compacted and transactional topics, copied record by record, and their map."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from gateway.devcluster import DevCluster
from gateway.mirror.offset_map.rules.offset_map import OffsetMap, TranslationRule
from gateway.state.records import NOT_PADDED, MirrorError, MirrorMode, MirrorRecord
from protocol.apis import ApiKey
from protocol.batch.header import rewrite_batch
from protocol.produce import build_request_body, scan_response
from tests.support.brokers.logs import create_topic, log_ends
from tests.support.clients.exact import assert_compacted_alike, assert_map, assert_same_records, read_visible
from tests.support.mirror.engine_process import EngineProcess
from tests.support.mirror.mirror_lab import LINK, Lab, cluster, mirror_lab
from tests.support.mirror.translate_sim import batch_of
from tests.support.waiting import wait_until, wait_until_async

COMPACTED = {
    "cleanup_policy": "compact",
    "segment_bytes": "30000",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "100",
    "max_compaction_lag_ms": "1000",
}
KEYS = 60


def write_keyed(bootstrap: str, topic: str, count: int, seed: int, codec: str = "none") -> None:
    """Records of few keys, tombstones and null keys' opposites among them; batches of several."""
    numbers = random.Random(seed)
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, "batch.size": 2000})
    for number in range(count):
        value = None if numbers.random() < 0.05 else b"%d of %d " % (number, seed) + b"x" * numbers.randrange(200)
        headers: list[tuple[str, str | bytes | None]] | None = (
            [("n", b"%d" % number)] if numbers.random() < 0.3 else None
        )
        stamp = 1_600_000_000_000 + number * 10 + seed
        producer.produce(topic, key=b"key %d" % numbers.randrange(KEYS), value=value, timestamp=stamp, headers=headers)
        if number % 40 == 0:
            producer.flush(10)
    assert producer.flush(30) == 0


def wait_for_compaction(bootstrap: str, topic: str, to_less_than: int) -> None:
    wait_until(lambda: len(read_visible(bootstrap, topic)) < to_less_than, 120.0)


async def translated(lab: Lab, topic: str) -> MirrorRecord:
    """The record of a compacted topic, as the control plane makes it; the topic is on the target."""
    record = await lab.record(topic)
    starts = tuple(replace(start, pad_to=NOT_PADDED) for start in record.starts)
    return replace(record, mode=MirrorMode.TRANSLATE, compacted=True, starts=starts)


async def the_map(lab: Lab, record: MirrorRecord) -> OffsetMap:
    (found,) = await lab.engine.offset_maps(record)
    return found


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_a_compacted_topic(source: DevCluster, target: DevCluster, topic: str, codec: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1, **COMPACTED)
    write_keyed(source.bootstrap, topic, 2000, 1, codec)
    wait_for_compaction(source.bootstrap, topic, 1500)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        record = await translated(lab, topic)
        lab.engine.start_mirror(record)
        await lab.caught_up(topic)
        write_keyed(source.bootstrap, topic, 100, 2, codec)
        await lab.caught_up(topic)
        offsets = await the_map(lab, record)
        before, after = read_visible(source.bootstrap, topic), read_visible(target.bootstrap, topic)
        assert_compacted_alike(before, after)
        assert len(offsets) > 10
        assert lab.status(topic)[0].segments == len(offsets)
        assert offsets.end == len(after) == lab.status(topic)[0].target_end
        assert_map(offsets, before, after)
        await lab.engine.stop_mirror(LINK, topic)
        read_again = await the_map(lab, record)  # as the topic tells it
    assert list(read_again) == list(offsets)


async def test_compaction_while_it_is_copied_and_kill_9(
    source: DevCluster, target: DevCluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source.bootstrap, topic, partitions=1, **COMPACTED)
    write_keyed(source.bootstrap, topic, 6000, 1)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        record = await translated(lab, topic)
        for turn in range(1, 5):
            process = EngineProcess(source.bootstrap, target.bootstrap, record, tmp_path, bytes_per_s=60_000 * turn)
            with process:
                # Fewer than are left of each turn after compaction; where the kill comes late, the last one has all.
                process.wait_until_copied(25 * turn, or_all=True)
            write_keyed(source.bootstrap, topic, 300, 10 + turn)
        wait_for_compaction(source.bootstrap, topic, 5500)
        lab.engine.start_mirror(record)
        await lab.caught_up(topic)
        write_keyed(source.bootstrap, topic, 50, 99)
        await lab.caught_up(topic)
        offsets = await the_map(lab, record)
        before, after = read_visible(source.bootstrap, topic), read_visible(target.bootstrap, topic)
    assert_compacted_alike(before, after)
    assert_map(offsets, before, after)


def transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 5, "batch.size": 1500})
    producer.init_transactions(30)
    return producer


def write_transactions(bootstrap: str, topic: str, count: int, seed: int) -> None:
    """Committed and aborted transactions of two producers, records without one between them."""
    numbers = random.Random(seed)
    producers = [transactional(bootstrap, f"{topic}-{seed}-{index}") for index in range(2)]
    plain = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(count):
        producer = numbers.choice(producers)
        producer.begin_transaction()
        for index in range(numbers.randint(1, 30)):
            producer.produce(topic, key=b"%d" % number, value=b"transaction %d record %d" % (number, index))
        producer.flush(10)
        if numbers.random() < 0.6:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
        if numbers.random() < 0.3:
            plain.produce(topic, value=b"plain %d" % number)
            plain.flush(10)


async def test_a_transactional_topic(source: DevCluster, target: DevCluster, topic: str) -> None:
    """Preserved up to the first transaction, translated from there on; nothing aborted on the target."""
    create_topic(source.bootstrap, topic, partitions=1, retention_ms="-1")
    write_keyed(source.bootstrap, topic, 200, 5)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        record = await lab.mirror(topic, retention_ms="-1")
        await lab.caught_up(topic)
        assert log_ends(target.bootstrap, topic, 1) == [200]
        assert lab.status(topic)[0].segments == 0
        write_transactions(source.bootstrap, topic, 60, 6)
        await lab.caught_up(topic)
        await wait_until_async(lambda: topic in lab.events.translated, 10.0)
        assert "transaction markers" in lab.events.translated[topic]
        offsets = await the_map(lab, record)
        before, after = read_visible(source.bootstrap, topic), read_visible(target.bootstrap, topic)
        assert_same_records(before, after)
        assert log_ends(target.bootstrap, topic, 1) == [len(after)]  # no marker there, and nothing aborted
        assert_map(offsets, before, after)
        assert offsets.to_target(log_ends(source.bootstrap, topic, 1)[0]) == (len(after), TranslationRule.EXACT)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:  # and after a restart, by a record of before
        lab.engine.start_mirror(record)
        await lab.caught_up(topic)
        write_transactions(source.bootstrap, topic, 10, 7)
        await lab.caught_up(topic)
        offsets = await the_map(lab, record)
        before, after = read_visible(source.bootstrap, topic), read_visible(target.bootstrap, topic)
    assert_same_records(before, after)
    assert_map(offsets, before, after)
    assert topic in lab.events.translated


async def test_an_open_transaction_is_waited_for_and_named(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1, retention_ms="-1")
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        await lab.mirror(topic, retention_ms="-1")
        producer = transactional(source.bootstrap, f"{topic}-open")
        producer.begin_transaction()
        producer.produce(topic, value=b"held")
        assert producer.flush(10) == 0
        write_keyed(source.bootstrap, topic, 20, 1)
        await wait_until_async(lambda: "producer id" in lab.status(topic)[0].waits_for, 30.0)
        assert "waiting for transaction of producer id" in lab.status(topic)[0].waits_for
        assert " since 20" in lab.status(topic)[0].waits_for
        assert lab.status(topic)[0].target_end == 0
        assert lab.status(topic)[0].lag == 21
        producer.commit_transaction(30)
        await lab.caught_up(topic)
        assert lab.status(topic)[0].waits_for == "" or await gone(lab, topic)
        before, after = read_visible(source.bootstrap, topic), read_visible(target.bootstrap, topic)
    assert len(after) == 21
    assert_same_records(before, after)


async def gone(lab: Lab, topic: str) -> bool:
    await wait_until_async(lambda: lab.status(topic)[0].waits_for == "", 10.0)
    return True


async def test_equal_offsets_are_demanded(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1, retention_ms="-1")
    async with mirror_lab(source.bootstrap, target.bootstrap, configs={"mirror.offsets": "preserve"}) as lab:
        await lab.mirror(topic)
        write_transactions(source.bootstrap, topic, 1, 3)
        error, message = await lab.failure()
    assert error is MirrorError.UNSUPPORTED_MESSAGE_FORMAT
    assert "transactional" in message or "control" in message


async def test_a_repeated_batch_is_told_by_its_append_time(target: DevCluster, topic: str) -> None:
    """What two appenders at once rely on: only the answer to a batch that the broker had already carries a time."""
    create_topic(target.bootstrap, topic, partitions=1)
    client = cluster(target.bootstrap)
    await client.start()
    try:
        data = rewrite_batch(memoryview(batch_of(0, 1, [(0, b"a"), (1, b"b")])), producer_id=2**50 + 99, sequence=0)
        answers = []
        for _ in range(2):
            await client.refresh((topic,))
            leader = client.leader(topic, 0)
            assert leader is not None
            connection = await client.connection(leader, "test")
            version = connection.version(ApiKey.PRODUCE, 11)
            body = b"".join(build_request_body(version, None, -1, 5000, {topic: [(0, data)]}))
            (result,) = scan_response(
                await connection.exchange(connection.send, ApiKey.PRODUCE, version, body, 10.0), version
            )
            answers.append((result.error_code, result.base_offset, result.log_append_time_ms >= 0))
    finally:
        await client.close()
    assert answers == [(0, 0, False), (0, 0, True)]
