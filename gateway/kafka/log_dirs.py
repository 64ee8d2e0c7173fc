"""Sizes of logs on the brokers' disks: DescribeLogDirs, asked of every broker."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError
from gateway.kafka.topic_partition import TopicPartition
from protocol.errors import error_name
from protocol.messages import DescribeLogDirsRequest


async def log_sizes(
    cluster: Cluster, topics: Collection[str], *, timeout_s: float | None = None
) -> dict[TopicPartition, int]:
    """Bytes of each partition's log, as its largest replica has it (compressed, indexes left out).

    Raises:
        BrokerError: a broker refuses, for example CLUSTER_AUTHORIZATION_FAILED (31).
        ClusterUnavailable: no answer within the deadline.
    """
    view = cluster.view
    wanted = [
        DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=sorted(view.topics[name].partitions))
        for name in topics
        if name in view.topics
    ]
    if not wanted:
        return {}
    nodes = tuple(view.brokers)
    answers = await asyncio.gather(*(_ask(cluster, node, wanted, timeout_s) for node in nodes))
    sizes: dict[TopicPartition, int] = {}
    for answer in answers:
        for key, size in answer.items():
            sizes[key] = max(size, sizes.get(key, 0))
    return sizes


async def _ask(cluster: Cluster, node: int, wanted: list[Any], timeout_s: float | None) -> dict[TopicPartition, int]:
    response = await cluster.request(DescribeLogDirsRequest(topics=wanted), node_id=node, timeout_s=timeout_s)
    if response.error_code:
        raise BrokerError(response.error_code, f"DescribeLogDirs on broker {node}: {error_name(response.error_code)}")
    return {
        (topic.name, part.partition_index): part.partition_size
        for directory in response.results
        if not directory.error_code
        for topic in directory.topics
        for part in topic.partitions
        if not part.is_future_key
    }
