"""Offsets of logs: ListOffsets and DeleteRecords, sent to each partition's leader."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from gateway.kafka.cluster import Cluster
from gateway.kafka.routed import ByLeader
from gateway.kafka.topic_partition import TopicPartition
from protocol.list_offsets import ListOffsets, OffsetFound
from protocol.messages import DeleteRecordsRequest

LATEST = -1
EARLIEST = -2

_CONSUMER = -1
_DEBUGGING = -2  # ListOffsetsRequest.DEBUGGING_REPLICA_ID: sees the leader's log end, not the high watermark


class OffsetAt(NamedTuple):
    """An answer of ListOffsets. `offset` is -1 when no record is that young; `timestamp` -1 where not asked by time."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[str, Mapping[int, int]],
    *,
    read_committed: bool = False,
    log_end: bool = False,
    timeout_s: float | None = None,
) -> dict[TopicPartition, OffsetAt]:
    """Offsets by timestamp.

    Args:
        wanted: topic -> partition -> milliseconds since the epoch, or LATEST (-1), EARLIEST (-2).
        read_committed: LATEST is then the last stable offset, else the high watermark.
        log_end: LATEST is then the end of the leader's log: records its followers have not fetched yet included.

    Raises:
        PartitionErrors: per partition, for example UNKNOWN_TOPIC_OR_PARTITION (3).
        ClusterUnavailable: no answer within the deadline.
    """
    timestamps = {(topic, index): at for topic, indexes in wanted.items() for index, at in indexes.items()}

    def build(partitions: Collection[TopicPartition]) -> ListOffsets:
        topics: dict[str, list[tuple[int, int]]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append((index, timestamps[topic, index]))
        return ListOffsets(topics, replica_id=_DEBUGGING if log_end else _CONSUMER, read_committed=read_committed)

    def parse(found: Sequence[OffsetFound]) -> Iterable[tuple[TopicPartition, int, OffsetAt]]:
        for topic, index, code, timestamp, offset, epoch in found:
            yield (topic, index), code, OffsetAt(offset, timestamp, epoch)

    return await ByLeader(cluster, "ListOffsets", build, parse).run(timestamps, timeout_s)


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], *, timeout_s: float | None = None
) -> dict[TopicPartition, int]:
    """Delete the records below an offset; -1 is the high watermark.

    Returns:
        (topic, partition) -> log start offset afterwards.

    Raises:
        PartitionErrors: per partition, for example OFFSET_OUT_OF_RANGE (1), POLICY_VIOLATION (44).
        ClusterUnavailable: no answer within the deadline. Some records may be deleted.
    """
    wait_ms = int((cluster.config.api_timeout_s if timeout_s is None else timeout_s) * 1000 / 3)

    def build(partitions: Collection[TopicPartition]) -> Any:
        part = DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition
        topics = [
            DeleteRecordsRequest.DeleteRecordsTopic(
                name=topic,
                partitions=[part(partition_index=index, offset=before[topic, index]) for index in indexes],
            )
            for topic, indexes in by_topic(partitions)
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=wait_ms)

    def parse(response: Any) -> Iterable[tuple[TopicPartition, int, int]]:
        for topic in response.topics:
            for part in topic.partitions:
                yield (topic.name, part.partition_index), part.error_code, part.low_watermark

    return await ByLeader(cluster, "DeleteRecords", build, parse).run(before, timeout_s)


def by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, list[int]]]:
    """Partitions as (topic, its partition numbers), in order."""
    for topic, group in groupby(sorted(partitions), key=lambda partition: partition[0]):
        yield topic, [index for _, index in group]
