"""Three brokers, one of which dies: leaders and coordinators are found again within the calls' own deadlines."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from gateway.devcluster import DevCluster
from gateway.kafka import admin
from gateway.kafka.groups import commit_offsets, committed_offsets, describe_group, list_groups
from gateway.kafka.offsets import LATEST, list_offsets
from tests.integration.net.conftest import OpenCluster
from tests.support.brokers.clusters import SOON_MISSED, running_cluster
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

_PARTITIONS = 6


@pytest.fixture
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    folder = tmp_path_factory.mktemp("three")
    with running_cluster("three", "4.3.1", folder, brokers=3, properties=SOON_MISSED) as cluster:
        yield cluster


async def test_a_killed_broker(three: DevCluster, client: OpenCluster, topic: str) -> None:
    cluster = await client(three.bootstrap, default_api_timeout_ms="30000")
    await admin.create_topic(cluster, topic, partitions=_PARTITIONS, replication_factor=3)
    wanted = {topic: dict.fromkeys(range(_PARTITIONS), LATEST)}
    groups = [f"g{number}" for number in range(6)]
    for group in groups:
        await commit_offsets(cluster, group, {(topic, 0): 0})
    victim = await cluster.coordinator(groups[0])
    lost = await cluster.connection(victim)
    assert victim in {cluster.leader(topic, partition) for partition in range(_PARTITIONS)}

    three.nodes[victim].signal(signal.SIGKILL)
    await wait_until_async(lambda: lost.closed)
    found = await list_offsets(cluster, wanted)

    assert {at.offset for at in found.values()} == {0}
    assert victim not in {cluster.leader(topic, partition) for partition in range(_PARTITIONS)}
    # While the victim's internal partitions move, coordinators may be missing for a while.
    for group in groups:
        assert set(await committed_offsets(cluster, group)) == {(topic, 0)}
        assert (await describe_group(cluster, group)).state == "Empty"
    assert await cluster.coordinator(groups[0]) != victim

    async def gone() -> bool:
        return victim not in (await cluster.refresh()).brokers

    await wait_until_async(gone, 60)
    assert {listing.group for listing in await list_groups(cluster)} >= set(groups)

    await asyncio.to_thread(three.up)
    await wait_until_async(lambda: not cluster.last_error and victim in cluster.view.brokers, 60)
    assert not (await cluster.connection(victim)).closed
