"""A real broker that is cut off, slow or silent: the client finds back by itself, and no call hangs."""

import asyncio

import pytest

from gateway.devcluster import DevCluster
from gateway.kafka import admin
from gateway.kafka.cluster import ClusterUnavailable
from gateway.kafka.offsets import LATEST, list_offsets
from protocol.apis import ApiKey
from protocol.codec import encode_body
from protocol.messages import MetadataRequest
from tests.integration.net.conftest import OpenCluster
from tests.support.brokers.toxiproxy import Proxy
from tests.support.waiting import wait_until_async

QUICK = {"request_timeout_ms": "1000", "socket_connection_setup_timeout_ms": "1000", "default_api_timeout_ms": "2000"}


async def test_a_cut_breaks_what_is_in_flight_and_mending_heals(
    source: DevCluster, source_proxy: Proxy, client: OpenCluster, topic: str
) -> None:
    cluster = await client(source.proxied_bootstrap, **QUICK)
    await admin.create_topic(cluster, topic, partitions=1, replication_factor=1)
    connection = await cluster.connection(1)
    answers: list[memoryview | None] = []
    body = encode_body(MetadataRequest(topics=[]), 9)
    source_proxy.add("latency", latency=2000)
    for _ in range(5):
        connection.send(ApiKey.METADATA, 9, (body,), answers.append)

    with source_proxy.being_cut():
        await wait_until_async(lambda: len(answers) == 5, 5)
        assert answers == [None] * 5
        await wait_until_async(lambda: not cluster.available, 10)
        with pytest.raises(ClusterUnavailable, match="refused|reset|closed by the broker"):
            await list_offsets(cluster, {topic: {0: LATEST}}, timeout_s=0.5)

    assert (await list_offsets(cluster, {topic: {0: LATEST}}, timeout_s=10))[topic, 0].offset == 0
    await wait_until_async(lambda: cluster.available, 10)
    assert await cluster.connection(1) is not connection


async def test_a_silent_broker_is_noticed_by_the_request_timeout(
    source: DevCluster, source_proxy: Proxy, client: OpenCluster
) -> None:
    cluster = await client(source.proxied_bootstrap, **QUICK)
    connection = await cluster.connection(1)
    answers: list[memoryview | None] = []
    source_proxy.add("timeout", timeout=0)
    loop = asyncio.get_running_loop()
    began = loop.time()

    connection.send(ApiKey.METADATA, 9, (encode_body(MetadataRequest(topics=[]), 9),), answers.append)
    await wait_until_async(lambda: connection.closed, 5)

    assert answers == [None]
    assert connection.close_reason == "no answer within 1 s"
    assert 0.9 <= loop.time() - began < 3
    with pytest.raises(ClusterUnavailable, match=r"no answer|not connected within 1 s|no connection in time"):
        await cluster.refresh(timeout_s=3)
    source_proxy.mend()
    await cluster.refresh(timeout_s=10)


async def test_slices_and_a_slow_line_change_no_byte(
    source: DevCluster, source_proxy: Proxy, client: OpenCluster
) -> None:
    cluster = await client(source.proxied_bootstrap)
    connection = await cluster.connection(1)
    source_proxy.add("slicer", average_size=7, size_variation=5, delay=0)
    plain = await client(source.bootstrap)

    sliced = await admin.describe_broker_configs(cluster, 1)

    assert sliced == await admin.describe_broker_configs(plain, 1)
    assert not connection.closed
