"""Producers of a partition: DescribeProducers, asked of its leader (KIP-664; Kafka 2.8 and later)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from gateway.net.cluster import Cluster
from gateway.net.offsets import by_topic
from gateway.net.routed import ByLeader, Partition
from protocol.messages import DescribeProducersRequest


class OpenTransaction(NamedTuple):
    """A transaction that has not ended. `first_offset`: of its first record in the partition."""

    producer_id: int
    epoch: int
    first_offset: int


async def open_transactions(
    cluster: Cluster, partitions: Collection[Partition], *, timeout_s: float | None = None
) -> dict[Partition, tuple[OpenTransaction, ...]]:
    """The open transactions of each partition, the oldest first.

    Raises:
        PartitionErrors: per partition, for example TOPIC_AUTHORIZATION_FAILED (29).
        UnsupportedVersion: a broker that cannot tell.
        ClusterUnavailable: no answer within the deadline.
    """

    def build(wanted: Collection[Partition]) -> Any:
        topic = DescribeProducersRequest.TopicRequest
        return DescribeProducersRequest(
            topics=[topic(name=name, partition_indexes=indexes) for name, indexes in by_topic(wanted)]
        )

    def parse(response: Any) -> Iterable[tuple[Partition, int, tuple[OpenTransaction, ...]]]:
        for topic in response.topics:
            for part in topic.partitions:
                found = [
                    OpenTransaction(one.producer_id, one.producer_epoch, one.current_txn_start_offset)
                    for one in part.active_producers
                    if one.current_txn_start_offset >= 0
                ]
                found.sort(key=lambda transaction: transaction.first_offset)
                yield (topic.name, part.partition_index), part.error_code, tuple(found)

    return await ByLeader(cluster, "DescribeProducers", build, parse).run(partitions, timeout_s)
