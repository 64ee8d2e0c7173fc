"""Start offsets of share groups, from scripted coordinators; real groups are in tests/carry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.kafka import share_groups
from gateway.kafka.cluster import BrokerError
from gateway.kafka.connection.errors import PartitionErrors
from gateway.kafka.share_groups import ShareStart, alter_share_offsets, share_offsets
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import AlterShareGroupOffsetsResponse, DescribeShareGroupOffsetsResponse
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import Request
from tests.support.fakes.fake_cluster import FakeCluster

DESCRIBE, ALTER = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.ALTER_SHARE_GROUP_OFFSETS


@pytest.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(2) as cluster:
        cluster.coordinators["g"] = 2
        yield cluster


def described(*partitions: tuple[int, int, int, int], code: int = 0) -> Any:
    """(partition, start, lag, error) of topic t."""
    kind = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
    topic = kind.DescribeShareGroupOffsetsResponseTopic
    part = topic.DescribeShareGroupOffsetsResponsePartition
    parts = [
        part(partition_index=index, start_offset=start, leader_epoch=0, lag=lag, error_code=error, error_message=None)
        for index, start, lag, error in partitions
    ]
    topics = [topic(topic_name="t", topic_id=None, partitions=parts)] if parts else []
    group = kind(group_id="g", topics=topics, error_code=code, error_message=None)
    return DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=[group])


def altered(request: Request, code: int = 0, refused: int = -1) -> Any:
    kind = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
    part = kind.AlterShareGroupOffsetsResponsePartition
    responses = [
        kind(
            topic_name=topic.topic_name,
            topic_id=None,
            partitions=[
                part(
                    partition_index=one.partition_index,
                    error_code=3 if one.partition_index == refused else 0,
                    error_message=None,
                )
                for one in topic.partitions
            ],
        )
        for topic in request.message.topics
    ]
    return AlterShareGroupOffsetsResponse(throttle_time_ms=0, error_code=code, error_message=None, responses=responses)


async def test_where_a_group_begins(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(DESCRIBE, lambda _: described((0, 10, 30, 0), (1, -1, -1, 0), (2, 0, -1, 0)))
    found = await share_offsets(await client(fake.bootstrap), "g")
    assert found == {("t", 0): ShareStart(10, 30), ("t", 2): ShareStart(0, -1)}


async def test_no_such_group(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(DESCRIBE, lambda _: described(code=int(ErrorCode.GROUP_ID_NOT_FOUND)))
    assert await share_offsets(await client(fake.bootstrap), "g") == {}


async def test_refusals_to_tell(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(DESCRIBE, lambda _: described(code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    with pytest.raises(BrokerError, match="DescribeShareGroupOffsets g: GROUP_AUTHORIZATION_FAILED"):
        await share_offsets(await client(fake.bootstrap), "g")
    fake.on(DESCRIBE, lambda _: described((0, -1, -1, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))))
    with pytest.raises(PartitionErrors):
        await share_offsets(await client(fake.bootstrap), "g")


async def test_offsets_are_set_in_requests_of_a_bounded_size(
    fake: FakeCluster, client: OpenCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_groups, "IN_A_REQUEST", 2)
    sent: list[list[tuple[int, int]]] = []

    def alter(request: Request) -> Any:
        (topic,) = request.message.topics
        sent.append([(one.partition_index, one.start_offset) for one in topic.partitions])
        return altered(request)

    fake.on(ALTER, alter)
    await alter_share_offsets(await client(fake.bootstrap), "g", {("t", index): index * 10 for index in range(3)})
    assert sent == [[(0, 0), (1, 10)], [(2, 20)]]


async def test_what_is_refused_is_told(fake: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(fake.bootstrap)
    fake.on(ALTER, lambda request: altered(request, code=int(ErrorCode.NON_EMPTY_GROUP)))
    with pytest.raises(BrokerError, match="AlterShareGroupOffsets g: NON_EMPTY_GROUP"):
        await alter_share_offsets(cluster, "g", {("t", 0): 1})
    fake.on(ALTER, lambda request: altered(request, refused=1))
    with pytest.raises(PartitionErrors) as error:
        await alter_share_offsets(cluster, "g", {("t", 0): 1, ("t", 1): 1})
    assert error.value.errors == {("t", 1): 3}
    fake.on(ALTER, lambda request: AlterShareGroupOffsetsResponse(error_code=0, error_message=None, responses=[]))
    with pytest.raises(PartitionErrors):
        await alter_share_offsets(cluster, "g", {("t", 0): 1})
