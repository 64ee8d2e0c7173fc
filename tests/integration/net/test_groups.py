"""Groups of real consumers, of both protocols, as the client describes and commits for them."""

import asyncio
import uuid

import pytest
from confluent_kafka import Consumer, Producer

from gateway.devcluster import DevCluster
from gateway.kafka import admin
from gateway.kafka.cluster import Cluster, PartitionErrors
from gateway.kafka.groups import DEAD, EMPTY, commit_offsets, committed_offsets, describe_group, list_groups
from protocol.errors import ErrorCode
from tests.integration.net.conftest import OpenCluster
from tests.support.waiting import wait_until_async


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


async def joined(cluster: Cluster, bootstrap: str, topic: str, group: str, protocol: str) -> Consumer:
    """A consumer that has read and committed the ten records of the topic."""
    await admin.create_topic(cluster, topic, partitions=2, replication_factor=1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(10):
        producer.produce(topic, b"x", partition=0)
    assert await asyncio.to_thread(producer.flush, 30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    read = 0
    while read < 10:
        message = await asyncio.to_thread(consumer.poll, 10)
        assert message is not None, "nothing to read"
        assert message.error() is None, message.error()
        read += 1
    await asyncio.to_thread(consumer.commit, asynchronous=False)
    return consumer


@pytest.mark.parametrize(("where", "protocol"), [("source", "classic"), ("target", "classic"), ("target", "consumer")])
async def test_life_of_a_group(
    request: pytest.FixtureRequest, client: OpenCluster, topic: str, group: str, where: str, protocol: str
) -> None:
    dev: DevCluster = request.getfixturevalue(where)
    cluster = await client(dev.bootstrap)
    assert (await describe_group(cluster, group)).state == DEAD
    assert await committed_offsets(cluster, group) == {}

    consumer = await joined(cluster, dev.bootstrap, topic, group, protocol)

    described = await describe_group(cluster, group)
    assert (described.state, described.type, described.protocol_type) == ("Stable", protocol, "consumer")
    (member,) = described.members
    assert (member.client_id, member.host) == ("reader", "127.0.0.1")
    assert member.subscribed == {topic}
    assert member.assigned == {topic: (0, 1)}
    assert (await committed_offsets(cluster, group))[topic, 0].offset == 10
    with pytest.raises(PartitionErrors) as refused:
        await commit_offsets(cluster, group, {(topic, 0): 3})
    assert refused.value.errors == {(topic, 0): ErrorCode.UNKNOWN_MEMBER_ID}

    await asyncio.to_thread(consumer.close)

    async def is_empty() -> bool:
        return (await describe_group(cluster, group)).state == EMPTY

    await wait_until_async(is_empty)
    assert any(listing.group == group for listing in await list_groups(cluster))
    await commit_offsets(cluster, group, {(topic, 0): 3, (topic, 1): (0, "carried over")})
    found = await committed_offsets(cluster, group)
    assert {key: (at.offset, at.leader_epoch, at.metadata) for key, at in found.items()} == {
        (topic, 0): (3, -1, ""),
        (topic, 1): (0, -1, "carried over"),
    }


async def test_a_commit_makes_a_group_that_consumers_then_continue(
    target: DevCluster, client: OpenCluster, topic: str, group: str
) -> None:
    cluster = await client(target.bootstrap)
    await admin.create_topic(cluster, topic, partitions=1, replication_factor=1)

    await commit_offsets(cluster, group, {(topic, 0): 0})

    assert (await describe_group(cluster, group)).state == EMPTY
    with pytest.raises(PartitionErrors) as unknown:
        await commit_offsets(cluster, group, {("no-such-topic", 0): 0, (topic, 0): 0})
    assert unknown.value.errors == {("no-such-topic", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
