"""A target of three brokers loses one after the other, in the middle of the copy."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from gateway.kafka.admin import create_topic as create_replicated
from gateway.kafka.offsets import EARLIEST
from gateway.mirror.partition.log_start import plan_start
from gateway.state.records import MirrorRecord
from tests.support.brokers.clusters import SOON_MISSED, running_cluster
from tests.support.brokers.logs import assert_equal, assert_nothing_lost, create_topic, read_logs
from tests.support.clients.writer import Writer
from tests.support.mirror.mirror_lab import LINK, Lab, mirror_lab

PARTITIONS = 6


async def replicated(lab: Lab, topic: str) -> MirrorRecord:
    configs = {"min.insync.replicas": "2"}
    await create_replicated(lab.target, topic, partitions=PARTITIONS, replication_factor=3, configs=configs)
    return MirrorRecord(
        link=LINK,
        source_topic=topic,
        mirror_topic=topic,
        mirror_id=5,
        starts=await plan_start(lab.source, topic, EARLIEST),
    )


@pytest.mark.slow
@pytest.mark.faults
async def test_killed_target_brokers(source: DevCluster, topic: str, tmp_path: Path) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with running_cluster("three", "4.3.1", tmp_path, brokers=3, properties=SOON_MISSED) as target:
        async with (
            mirror_lab(source.bootstrap, target.bootstrap) as lab,
            mirror_lab(source.bootstrap, target.bootstrap) as other,
        ):
            record = await replicated(lab, topic)
            lab.engine.start_mirror(record)
            other.engine.start_mirror(record)  # two at once, as on a hand-over
            with Writer(source.bootstrap, topic, partitions=PARTITIONS, rate=2000) as writer:
                for node in random.sample(list(target.nodes.values()), 2):
                    await asyncio.to_thread(writer.wait_for_acks, 3000)
                    node.signal(signal.SIGKILL)
                    await asyncio.to_thread(node.wait_stopped, 10.0)
                    await asyncio.to_thread(writer.wait_for_acks, 3000)
                    await asyncio.to_thread(target.up)
                await asyncio.to_thread(writer.wait_for_acks, 1000)
            await lab.caught_up(topic)
            await other.caught_up(topic)
        one, two = await asyncio.gather(
            *(asyncio.to_thread(read_logs, each.bootstrap, topic, PARTITIONS) for each in (source, target))
        )
        assert_equal(one, two)
        assert_nothing_lost(writer, two)
