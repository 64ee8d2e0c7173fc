"""DescribeProducers, asked of each partition's leader."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.kafka.cluster import PartitionErrors
from gateway.kafka.producers import active_producers
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import DescribeProducersResponse
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import Request
from tests.support.fakes.fake_cluster import FakeCluster

_Topic = DescribeProducersResponse.TopicResponse
_Partition = _Topic.PartitionResponse


def known_to(node: int, error: int) -> Any:
    """The leader's answer: it knows the producers 10 * node and 10 * node + 1."""

    def answer(request: Request) -> Any:
        states = [
            _Partition.ProducerState(
                producer_id=10 * node + i,
                producer_epoch=0,
                last_sequence=4,
                last_timestamp=1,
                coordinator_epoch=0,
                current_txn_start_offset=-1,
            )
            for i in range(2)
        ]
        return DescribeProducersResponse(
            throttle_time_ms=0,
            topics=[
                _Topic(
                    name=topic.name,
                    partitions=[
                        _Partition(
                            partition_index=index,
                            error_code=error,
                            error_message=None,
                            active_producers=[] if error else states,
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.message.topics
            ],
        )

    return answer


async def test_whom_the_leaders_know(client: OpenCluster) -> None:
    async with FakeCluster(2) as fake:
        fake.leaders = {"a": [1, 2]}
        for node, broker in fake.brokers.items():
            broker.handlers[ApiKey.DESCRIBE_PRODUCERS] = known_to(node, 0)
        cluster = await client(fake.bootstrap)
        found = await active_producers(cluster, [("a", 0), ("a", 1)])
        assert found == {("a", 0): {10, 11}, ("a", 1): {20, 21}}


async def test_without_read_it_is_not_told(client: OpenCluster) -> None:
    async with FakeCluster(1) as fake:
        fake.leaders = {"a": [1]}
        refusal = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        fake.brokers[1].handlers[ApiKey.DESCRIBE_PRODUCERS] = known_to(1, refusal)
        cluster = await client(fake.bootstrap)
        with pytest.raises(PartitionErrors):
            await active_producers(cluster, [("a", 0)])
