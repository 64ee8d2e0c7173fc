"""kill -9 at any moment, two engines at once, broken connections: the logs end equal, record by record."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

from gateway.devcluster import DevCluster
from gateway.kafka.offsets import delete_records
from tests.support.brokers.logs import assert_equal, assert_nothing_lost, create_topic, log_ends, read_logs
from tests.support.brokers.toxiproxy import Proxy
from tests.support.clients.writer import Writer
from tests.support.mirror.engine_process import EngineProcess
from tests.support.mirror.mirror_lab import mirror_lab
from tests.support.waiting import wait_until_async

PARTITIONS = 3


def backlog(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "batch.size": 3000, "linger.ms": 5, "queue.buffering.max.messages": count}
    )
    for number in range(count):
        producer.produce(topic, value=b"old %d " % number + b"." * 500, partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(30) == 0


async def finish_and_compare(source: str, target: str, topic: str, record, writer: Writer | None) -> None:
    """A last engine catches up; then both logs are read back."""
    async with mirror_lab(source, target) as lab:
        lab.engine.start_mirror(record)
        await lab.caught_up(topic)
    one, other = await asyncio.gather(*(asyncio.to_thread(read_logs, s, topic, PARTITIONS) for s in (source, target)))
    assert_equal(one, other)
    if writer is not None:
        assert_nothing_lost(writer, [[r for r in log if not (r.value or b"").startswith(b"old")] for log in other])


@pytest.mark.slow
async def test_killed_again_and_again(
    source: DevCluster, target: DevCluster, topic: str, tmp_path: Path, dice: random.Random
) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    await asyncio.to_thread(backlog, source.bootstrap, topic, 150_000)
    async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
        # Padding, trimming and the start inside a batch are part of what may be interrupted.
        await delete_records(lab.source, {(topic, 0): dice.randrange(1, 5000), (topic, 1): dice.randrange(1, 5000)})
        record = await lab.record(topic)
    never = threading.Event()
    ends: list[int] = []
    with Writer(source.bootstrap, topic, partitions=PARTITIONS, rate=1500) as writer:
        for _ in range(12):
            # Slow enough that the backlog lasts until the end.
            with EngineProcess(source.bootstrap, target.bootstrap, record, tmp_path, bytes_per_s=30_000_000) as engine:
                if dice.random() < 0.7:  # at any moment of the copy, or of the start
                    await asyncio.to_thread(engine.wait_until_copied, dice.randrange(12_000))
                await asyncio.to_thread(never.wait, dice.uniform(0.0, 0.1))
            ends.append(sum(await asyncio.to_thread(log_ends, target.bootstrap, topic, PARTITIONS)))
        left = sum(await asyncio.to_thread(log_ends, source.bootstrap, topic, PARTITIONS)) - ends[-1]
    assert left > 0
    assert len(set(ends)) >= 5, f"most engines were killed before they had copied anything: {ends}"
    await finish_and_compare(source.bootstrap, target.bootstrap, topic, record, writer)


async def test_two_engines_at_once(
    source: DevCluster, target: DevCluster, topic: str, tmp_path: Path, dice: random.Random
) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    await asyncio.to_thread(backlog, source.bootstrap, topic, 60_000)
    async with (
        mirror_lab(source.bootstrap, target.bootstrap) as first,
        mirror_lab(source.bootstrap, target.bootstrap) as second,
    ):
        record = await first.record(topic)
        with EngineProcess(source.bootstrap, target.bootstrap, record, tmp_path):  # and a third, in another process
            first.engine.start_mirror(record)
            some = dice.randrange(1, 10_000)
            await wait_until_async(lambda: sum(one.records_total for one in first.status(topic)) >= some)
            second.engine.start_mirror(record)
            with Writer(source.bootstrap, topic, partitions=PARTITIONS, rate=3000) as writer:
                await asyncio.to_thread(writer.wait_for_acks, 9000)
            await first.caught_up(topic)
            await second.caught_up(topic)
    await finish_and_compare(source.bootstrap, target.bootstrap, topic, record, writer)


@pytest.mark.faults
async def test_broken_connections(
    source: DevCluster,
    target: DevCluster,
    source_proxy: Proxy,
    target_proxy: Proxy,
    topic: str,
    dice: random.Random,
) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    await asyncio.to_thread(backlog, source.bootstrap, topic, 60_000)
    async with mirror_lab(source.proxied_bootstrap, target.proxied_bootstrap, direct_source=source.bootstrap) as lab:
        record = await lab.mirror(topic)
        with Writer(source.bootstrap, topic, partitions=PARTITIONS, rate=1500) as writer:
            for _ in range(10):
                await asyncio.to_thread(writer.wait_for_acks, dice.randint(50, 600))
                proxy = dice.choice((source_proxy, target_proxy))
                with proxy.being_cut():
                    await asyncio.to_thread(writer.wait_for_acks, dice.randint(1, 300))
            target_proxy.add("reset_peer", timeout=dice.randint(1, 50))
            await asyncio.to_thread(writer.wait_for_acks, 1000)
            target_proxy.mend()
            source_proxy.add("slicer", average_size=500, size_variation=400, delay=10)
            target_proxy.add("latency", latency=50, jitter=30)
            await asyncio.to_thread(writer.wait_for_acks, 3000)
            source_proxy.mend()
            target_proxy.mend()
        await lab.caught_up(topic)
    await finish_and_compare(source.bootstrap, target.bootstrap, topic, record, writer)


@pytest.mark.faults
async def test_a_source_that_is_away_for_long_is_reported_and_found_again(
    source: DevCluster, target: DevCluster, source_proxy: Proxy, topic: str
) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    async with mirror_lab(source.proxied_bootstrap, target.bootstrap, direct_source=source.bootstrap) as lab:
        await lab.mirror(topic)
        await lab.caught_up(topic)
        with source_proxy.being_cut():
            await wait_until_async(lambda: lab.events.availability == [False], what="a lost source")
            await asyncio.to_thread(backlog, source.bootstrap, topic, 300)
            assert all(one.phase == "copying" for one in lab.status(topic))
        await lab.caught_up(topic)
        await wait_until_async(lambda: lab.events.availability == [False, True], what="a source found again")
