"""The mirror between two real clusters: what arrives is what was written, at the same offsets."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from confluent_kafka import Producer

from gateway.devcluster import DevCluster
from gateway.kafka.offsets import EARLIEST, LATEST, delete_records, list_offsets
from gateway.mirror.partition.log_start import plan_start
from gateway.state.records import MirrorRecord, PartitionStart
from tests.support.brokers.logs import assert_equal, create_topic, read_logs
from tests.support.clients.writer import Writer
from tests.support.mirror.mirror_lab import LINK, Lab, mirror_lab
from tests.support.waiting import wait_until_async

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def write(bootstrap: str, topic: str, partitions: int, count: int, **config: object) -> None:
    """Records with keys, headers and timestamps of their own; some with null keys or values."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.size": 4000, **config})
    for number in range(count):
        producer.produce(
            topic,
            key=None if number % 7 == 0 else b"key %d" % number,
            value=None if number % 11 == 0 else b"value %d " % number + b"." * (number % 300),
            partition=number % partitions,
            timestamp=int(time.time() * 1000) - 3_600_000 + number,
            headers=[("number", b"%d" % number), ("empty", b"")],
        )
        producer.poll(0)
    assert producer.flush(30) == 0


async def both_logs_are_equal(source: DevCluster, target: DevCluster, topic: str, partitions: int) -> int:
    """Compare everything; returns the number of records."""
    one = await asyncio.to_thread(read_logs, source.bootstrap, topic, partitions)
    other = await asyncio.to_thread(read_logs, target.bootstrap, topic, partitions)
    assert_equal(one, other)
    return sum(map(len, one))


async def test_a_backlog_of_all_codecs_then_live_records(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=3)
    for codec in CODECS:
        write(source.bootstrap, topic, 3, 1500, **{"compression.type": codec, "enable.idempotence": codec == "lz4"})
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        await lab.mirror(topic)
        await lab.caught_up(topic)
        assert lab.events.readable == [topic]
        with Writer(source.bootstrap, topic, partitions=3, rate=2000) as writer:
            await asyncio.to_thread(writer.wait_for_acks, 3000)
        await lab.caught_up(topic)
        assert await both_logs_are_equal(source, target, topic, 3) == 7500 + writer.sent
        for one in lab.status(topic):
            assert one.phase == "copying"
            assert one.mirrored_to == one.target_end == one.source_end == one.records_total
            assert (one.lag, one.lag_ms, one.last_error) == (0, 0, "")
            assert lab.progress.position(topic, one.partition) == one.mirrored_to


async def test_a_log_that_starts_inside_a_batch(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=3)
    write(source.bootstrap, topic, 2, 4000)  # the third partition stays empty
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        await delete_records(lab.source, {(topic, 0): 1003, (topic, 1): 1999})
        record = await lab.record(topic)
        assert [start.source_start for start in record.starts] == [1003, 1999, 0]
        assert all(start.pad_to <= start.source_start for start in record.starts)
        assert any(start.pad_to < start.source_start for start in record.starts)
        lab.engine.start_mirror(record)
        await lab.caught_up(topic)
        await wait_until_async(lambda: lab.events.readable == [topic], what="the copy to be trimmed")
        starts = await list_offsets(lab.target, {topic: dict.fromkeys(range(3), EARLIEST)})
        assert [starts[topic, index].offset for index in range(3)] == [1003, 1999, 0]
        write(source.bootstrap, topic, 3, 300)
        await lab.caught_up(topic)
        assert await both_logs_are_equal(source, target, topic, 3) == 997 + 1 + 300


async def test_a_large_offset_is_padded(source: DevCluster, target: DevCluster, topic: str) -> None:
    """The source's own start is moved up by padding of ours: a mirror of nothing but null records."""
    create_topic(source.bootstrap, topic, partitions=1)
    async with mirror_lab(source.bootstrap, source.bootstrap) as pad:
        pad.engine.start_mirror(pad_only(topic, 3_000_000))
        await lab_phase(pad, topic, "copying", "failed")
    write(source.bootstrap, topic, 1, 500)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        starts = await plan_start(lab.source, topic, EARLIEST)
        assert starts == (PartitionStart(3_000_000, 3_000_000),)
        await lab.mirror(topic)
        await lab.caught_up(topic)
        assert await both_logs_are_equal(source, target, topic, 1) == 500


def pad_only(topic: str, offset: int) -> MirrorRecord:
    start = PartitionStart(offset, offset)
    return MirrorRecord(link=LINK, source_topic=f"none-{topic}", mirror_topic=topic, mirror_id=1, starts=(start,))


async def lab_phase(lab: Lab, topic: str, *phases: str) -> None:
    await wait_until_async(lambda: lab.status(topic)[0].phase in phases, what=f"phase {phases}")


async def test_start_latest_and_by_time(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=2)
    write(source.bootstrap, topic, 2, 2000)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        latest = await plan_start(lab.source, topic, LATEST)
        assert latest == (PartitionStart(1000, 1000), PartitionStart(1000, 1000))
        future = await plan_start(lab.source, topic, int(time.time() * 1000) + 60_000)
        assert future == latest
        full = await asyncio.to_thread(read_logs, source.bootstrap, topic, 2)
        moment = full[0][500].timestamp[1]
        by_time = await plan_start(lab.source, topic, moment)
        assert by_time[0].source_start == 500
        assert by_time[0].pad_to <= 500
        await lab.mirror(topic, moment)
        await lab.caught_up(topic)
        copied = await asyncio.to_thread(read_logs, target.bootstrap, topic, 2)
        assert copied[0] == full[0][500:]
        assert copied[1] == [record for record in full[1] if record.timestamp[1] >= moment]


async def test_a_stopped_mirror_goes_on_where_it_was(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=2)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        record = await lab.mirror(topic)
        with Writer(source.bootstrap, topic, partitions=2, rate=3000) as writer:
            for _ in range(5):
                await asyncio.to_thread(writer.wait_for_acks, random.randint(100, 800))
                await lab.engine.stop_mirror(LINK, topic)
                assert lab.status(topic) == []
                lab.engine.start_mirror(record)
        await lab.caught_up(topic)
        assert await both_logs_are_equal(source, target, topic, 2) == writer.sent


async def test_the_throttle_holds(source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=2)
    write(source.bootstrap, topic, 2, 10_000, **{"compression.type": "none"})
    rate = 500_000
    async with mirror_lab(source.bootstrap, target.bootstrap, configs={"throttle.bytes.per.second": str(rate)}) as lab:
        began = time.monotonic()
        await lab.mirror(topic)
        await lab.caught_up(topic)
        took = time.monotonic() - began
        copied = sum(one.bytes_total for one in lab.status(topic))
        assert copied > 1_000_000
        assert copied / took < rate * 1.5, f"{copied} bytes in {took:.1f} s"


@pytest.mark.parametrize("through_gateway", [True, False])
async def test_records_that_bypass_the_gateway_are_counted(
    source: DevCluster, target: DevCluster, topic: str, through_gateway: bool
) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        await lab.mirror(topic)
        await lab.caught_up(topic)
        await asyncio.to_thread(write, source.bootstrap, topic, 1, 100)
        if through_gateway:
            lab.engine.forwarded(topic, 0, 0, 60)
            lab.engine.forwarded(topic, 0, 60, 30)
        await lab.caught_up(topic)
        expected = 10 if through_gateway else 100
        await wait_until_async(lambda: lab.status(topic)[0].bypassed_last_minute == expected, what=f"{expected}")
