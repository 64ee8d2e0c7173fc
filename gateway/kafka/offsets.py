"""Log offsets: ListOffsets and DeleteRecords, sent to each partition's leader."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import NetError
from gateway.kafka.routed import ByLeader
from gateway.kafka.topic_partition import TopicPartition
from protocol.errors import ProtocolError
from protocol.list_offsets import LatestOffsets, ListOffsets, OffsetFound
from protocol.messages import DeleteRecordsRequest

LATEST = -1
EARLIEST = -2

_CONSUMER = -1
_DEBUGGING = -2  # ListOffsetsRequest.DEBUGGING_REPLICA_ID: sees the log end, not the high watermark, on followers, too


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
        log_end: LATEST is then the end of the leader's log, including records that its followers have not fetched yet.

    From v4 on a broker that does not lead in the known epoch refuses, and the request is repeated with newer metadata.

    Raises:
        PartitionErrors: per partition, for example UNKNOWN_TOPIC_OR_PARTITION (3).
        ClusterUnavailable: no answer within the deadline.
    """
    timestamps = {(topic, index): at for topic, indexes in wanted.items() for index, at in indexes.items()}

    def build(partitions: Collection[TopicPartition]) -> ListOffsets:
        topics: dict[str, list[tuple[int, int]]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append((index, timestamps[topic, index]))
        replica_id = _DEBUGGING if log_end else _CONSUMER
        return ListOffsets(
            topics, replica_id=replica_id, read_committed=read_committed, epochs=_epochs(cluster, topics)
        )

    def parse(found: Sequence[OffsetFound]) -> Iterable[tuple[TopicPartition, int, OffsetAt]]:
        for topic, index, code, timestamp, offset, epoch in found:
            yield (topic, index), code, OffsetAt(offset, timestamp, epoch)

    return await ByLeader(cluster, "ListOffsets", build, parse).run(timestamps, timeout_s)


async def latest_offsets(
    cluster: Cluster,
    topics: Mapping[str, int],
    *,
    read_committed: bool = False,
    log_end: bool = False,
    timeout_s: float | None = None,
) -> dict[str, tuple[int, ...]]:
    """LATEST of topics (name -> number of partitions), by partition: for thousands of partitions under a write pause.

    Same as `list_offsets`, with less than half of its CPU if every leader answers. If one does not, or refuses a
    partition, `list_offsets` asks for everything again, and handles the errors.

    Raises:
        PartitionErrors, ClusterUnavailable: as `list_offsets`.
    """
    loop = asyncio.get_running_loop()
    total_s = cluster.config.api_timeout_s if timeout_s is None else timeout_s
    deadline = loop.time() + total_s
    leaders = _by_leader(cluster, topics)
    if leaders is not None:
        replica_id, try_s = _DEBUGGING if log_end else _CONSUMER, max(1.0, total_s / 3)
        asked = [
            cluster.request(
                LatestOffsets(
                    parts,
                    replica_id=replica_id,
                    read_committed=read_committed,
                    epochs=_epochs(cluster, parts),
                ),
                node_id=node,
                timeout_s=min(try_s, total_s),
            )
            for node, parts in leaders.items()
        ]
        found = _joined(topics, await asyncio.gather(*asked, return_exceptions=True))
        if found is not None:
            return found
    wanted = {topic: dict.fromkeys(range(partitions), LATEST) for topic, partitions in topics.items()}
    left_s = max(0.001, deadline - loop.time())
    slowly = await list_offsets(cluster, wanted, log_end=log_end, read_committed=read_committed, timeout_s=left_s)
    return {
        topic: tuple(slowly[topic, index].offset for index in range(partitions)) for topic, partitions in topics.items()
    }


def _epochs(cluster: Cluster, topics: Iterable[str]) -> dict[str, dict[int, int]]:
    """The known leader epochs, to exclude answers of followers and former leaders."""
    known = cluster.view.topics
    return {
        topic: {index: partition.leader_epoch for index, partition in known[topic].partitions.items()}
        for topic in topics
        if topic in known
    }


def _by_leader(cluster: Cluster, topics: Mapping[str, int]) -> dict[int, dict[str, list[tuple[int, int]]]] | None:
    """The partitions to ask each node for; None when a leader is unknown."""
    leaders: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(dict)
    view = cluster.view
    for topic, partitions in topics.items():
        known, here = view.topics.get(topic), defaultdict[int, list[tuple[int, int]]](list)
        if known is None or not known.partitions.keys() >= set(range(partitions)):
            return None
        for index in range(partitions):
            here[known.partitions[index].leader].append((index, LATEST))
        if min(here, default=0) < 0:
            return None
        for leader, parts in here.items():
            leaders[leader][topic] = parts
    return leaders


def _joined(topics: Mapping[str, int], answers: Iterable[Any]) -> dict[str, tuple[int, ...]] | None:
    """The leaders' answers, joined; None when one is missing.

    Raises:
        BaseException: any but network and protocol errors.
    """
    found: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    for answer in answers:
        if answer is None or isinstance(answer, NetError | ProtocolError):
            return None
        if isinstance(answer, BaseException):
            raise answer
        for topic, offsets in answer.items():
            found.setdefault(topic, {}).update(offsets)
    if any(not found[topic].keys() >= set(range(partitions)) for topic, partitions in topics.items()):
        return None
    return {topic: tuple(map(found[topic].__getitem__, range(partitions))) for topic, partitions in topics.items()}


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], *, timeout_s: float | None = None
) -> dict[TopicPartition, int]:
    """Delete the records below an offset; -1 is the high watermark.

    Returns:
        (topic, partition) -> log start offset afterwards.

    Raises:
        PartitionErrors: per partition, for example OFFSET_OUT_OF_RANGE (1), POLICY_VIOLATION (44). For those in
            `partial` the records are deleted; with NETWORK_EXCEPTION (13) they may be.
        RestRefused: the same, when the permit was withdrawn on the way.
        ActRefused: nothing is deleted.
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
