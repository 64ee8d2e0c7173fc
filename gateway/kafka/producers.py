"""The producers that a partition's leader knows (DescribeProducers, KIP-664, Kafka 2.8 and later)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from gateway.kafka.cluster import Cluster
from gateway.kafka.offsets import by_topic
from gateway.kafka.routed import ByLeader
from gateway.kafka.topic_partition import TopicPartition
from protocol.messages import DescribeProducersRequest


async def active_producers(
    cluster: Cluster, partitions: Collection[TopicPartition], *, timeout_s: float | None = None
) -> dict[TopicPartition, frozenset[int]]:
    """The producer ids whose state each partition's leader has. Needs READ on the topics.

    Raises:
        PartitionErrors: per partition.
        ClusterUnavailable: no answer within the deadline.
        UnsupportedVersion: the brokers are older.
    """

    def build(asked: Collection[TopicPartition]) -> Any:
        topic = DescribeProducersRequest.TopicRequest
        return DescribeProducersRequest(
            topics=[topic(name=name, partition_indexes=indexes) for name, indexes in by_topic(asked)]
        )

    def parse(response: Any) -> Iterable[tuple[TopicPartition, int, frozenset[int]]]:
        for topic in response.topics:
            for part in topic.partitions:
                known = frozenset(producer.producer_id for producer in part.active_producers or ())
                yield (topic.name, part.partition_index), part.error_code, known

    return await ByLeader(cluster, "DescribeProducers", build, parse).run(dict.fromkeys(partitions), timeout_s)
