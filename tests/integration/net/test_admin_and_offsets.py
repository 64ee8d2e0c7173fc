"""Topics, configs and offsets of real brokers, the older and the newer one."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from confluent_kafka import Producer

from gateway.kafka import admin
from gateway.kafka.cluster import Cluster, PartitionErrors
from gateway.kafka.offsets import EARLIEST, LATEST, delete_records, list_offsets
from protocol.errors import ErrorCode
from tests.integration.net.conftest import OpenCluster
from tests.support.waiting import wait_until_async


@pytest.fixture(params=["source", "target"])
async def cluster(request: pytest.FixtureRequest, client: OpenCluster) -> Cluster:
    return await client(request.getfixturevalue(request.param).bootstrap)


async def fill(cluster: Cluster, topic: str, timestamps: Sequence[int], partition: int = 0) -> None:
    host, port = cluster.config.bootstrap[0]
    producer = Producer({"bootstrap.servers": f"{host}:{port}"})
    for timestamp in timestamps:
        producer.produce(topic, b"x", partition=partition, timestamp=timestamp)
    assert await asyncio.to_thread(producer.flush, 30) == 0


async def test_life_of_a_topic(cluster: Cluster, topic: str) -> None:
    topic_id = await admin.create_topic(
        cluster, topic, partitions=2, replication_factor=1, configs={"retention.ms": "1234567"}
    )
    assert cluster.view.topics[topic].topic_id == topic_id != bytes(16)
    assert cluster.leader(topic, 1) is not None
    with pytest.raises(admin.AdminError) as exists:
        await admin.create_topic(cluster, topic, partitions=2)
    assert exists.value.code == ErrorCode.TOPIC_ALREADY_EXISTS

    await admin.create_partitions(cluster, topic, 3)
    assert len(cluster.view.topics[topic].partitions) == 3

    change = admin.TopicConfigChange({"max.message.bytes": "2000000"}, ["retention.ms"])
    assert await admin.alter_topic_configs(cluster, {topic: change}) == {}

    async def altered() -> (
        Mapping[str, admin.TopicConfigEntry] | None
    ):  # the controller answers before a broker has heard
        found = (await admin.describe_topic_configs(cluster, [topic]))[topic]
        return found if found["max.message.bytes"].value == "2000000" else None

    configs = await wait_until_async(altered, what="the altered config")
    assert configs is not None
    assert configs["max.message.bytes"][:2] == ("2000000", 1)
    assert configs["retention.ms"].is_default
    refused = await admin.alter_topic_configs(cluster, {topic: admin.TopicConfigChange({"retention.ms": "soon"})})
    assert refused[topic].code == ErrorCode.INVALID_CONFIG

    await admin.delete_topic(cluster, topic, topic_id=topic_id)
    again = await admin.create_topic(cluster, topic, partitions=1)
    with pytest.raises(admin.AdminError) as other:  # one that lands late
        await admin.delete_topic(cluster, topic, topic_id=topic_id)
    assert other.value.code == ErrorCode.UNKNOWN_TOPIC_ID
    assert cluster.view.topics[topic].topic_id == again != topic_id

    await admin.delete_topic(cluster, topic)
    with pytest.raises(admin.AdminError) as gone:
        await admin.delete_topic(cluster, topic)
    assert gone.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def unseen() -> bool:  # the controller answers before a broker has heard
        return topic not in (await cluster.refresh()).topics

    await wait_until_async(unseen, what="the end of the topic")


async def test_broker_configs(cluster: Cluster) -> None:
    configs = await admin.describe_broker_configs(cluster, 1)

    assert configs["node.id"].value == "1"


async def test_offsets(cluster: Cluster, topic: str) -> None:
    await admin.create_topic(cluster, topic, partitions=2, replication_factor=1)
    await fill(cluster, topic, range(1_000_000, 1_000_100))

    found = await list_offsets(cluster, {topic: {0: LATEST, 1: LATEST}})
    assert {partition: at.offset for partition, at in found.items()} == {(topic, 0): 100, (topic, 1): 0}
    by_time = (await list_offsets(cluster, {topic: {0: 1_000_050}}))[topic, 0]
    # A batch may be one record or many: the broker answers with the record, its batch's leader epoch is known.
    assert (by_time.offset, by_time.timestamp) == (50, 1_000_050)
    assert (await list_offsets(cluster, {topic: {0: 2_000_000}}))[topic, 0].offset == -1

    assert await delete_records(cluster, {(topic, 0): 30}) == {(topic, 0): 30}
    assert (await list_offsets(cluster, {topic: {0: EARLIEST}}))[topic, 0].offset == 30
    with pytest.raises(PartitionErrors) as beyond:
        await delete_records(cluster, {(topic, 0): 1000})
    assert beyond.value.errors == {(topic, 0): ErrorCode.OFFSET_OUT_OF_RANGE}


async def test_offsets_of_what_does_not_exist(cluster: Cluster, topic: str) -> None:
    with pytest.raises(PartitionErrors) as caught:
        await list_offsets(cluster, {topic: {0: LATEST}})
    assert caught.value.errors == {(topic, 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
