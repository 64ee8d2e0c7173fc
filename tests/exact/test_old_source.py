"""A source of Kafka 2.8.2 with ZooKeeper."""

from __future__ import annotations

import asyncio

from gateway.devcluster import DevCluster
from tests.support.logs import assert_equal, create_topic, read_logs
from tests.support.mirror_lab import mirror_lab
from tests.support.writer import Writer


async def test_a_plain_topic(old_source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(old_source.bootstrap, topic, partitions=2)
    async with mirror_lab(old_source.bootstrap, target.bootstrap) as lab:
        with Writer(old_source.bootstrap, topic, partitions=2) as writer:
            await asyncio.to_thread(writer.wait_for_acks, 200)
            await lab.mirror(topic)
            await asyncio.to_thread(writer.wait_for_acks, 500)
        await lab.caught_up(topic)
    assert_equal(*(read_logs(each.bootstrap, topic, 2) for each in (old_source, target)))
