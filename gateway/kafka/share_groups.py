"""Start offsets of share groups (KIP-932): read, and set from outside the group.

A share group has no committed offsets. Its coordinator keeps for each partition the *start offset*: all records before
it are finished (acknowledged, rejected, or given up), the one at it is not. The state of later records (acquired by
whom, acknowledged, how often delivered) is internal to the share coordinator; no API reads or sets it. `lag` is the
number of unfinished offsets, from the start offset to the log end (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, PartitionErrors, UnsupportedVersion
from gateway.kafka.offsets import by_topic
from gateway.kafka.routed import on_coordinator
from gateway.kafka.topic_partition import TopicPartition
from protocol.errors import ErrorCode, error_name
from protocol.messages import AlterShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequest

IN_A_REQUEST: Final = 1_000
"""How many partitions one request sets."""
UNKNOWN_LAG: Final = -1


class ShareStart(NamedTuple):
    """`offset`: the first unfinished one. `lag`: the number of unfinished offsets, -1 if the cluster does not tell."""

    offset: int
    lag: int = UNKNOWN_LAG


async def share_offsets(
    cluster: Cluster, group: str, *, timeout_s: float | None = None
) -> dict[TopicPartition, ShareStart]:
    """Every start offset of a share group; empty if the group does not exist, or the cluster has no share groups.

    A partition that no member has read yet has none.

    Raises:
        ClusterUnavailable: no answer within the deadline.
        BrokerError: the coordinator refuses, for example GROUP_AUTHORIZATION_FAILED (30).
        PartitionErrors: per partition.
    """
    kind = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    request = DescribeShareGroupOffsetsRequest(groups=[kind(group_id=group, topics=None)])
    try:
        response = await on_coordinator(cluster, group, request, _described_codes, timeout_s=timeout_s)
    except UnsupportedVersion:
        return {}
    answer = response.groups[0]
    if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    if answer.error_code:
        why = answer.error_message or error_name(answer.error_code)
        raise BrokerError(answer.error_code, f"DescribeShareGroupOffsets {group}: {why}")
    found: dict[TopicPartition, ShareStart] = {}
    errors: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        for part in topic.partitions:
            if part.error_code:
                errors[topic.topic_name, part.partition_index] = part.error_code
            elif part.start_offset >= 0:
                lag = UNKNOWN_LAG if part.lag is None else part.lag
                found[topic.topic_name, part.partition_index] = ShareStart(part.start_offset, lag)
    if errors:
        raise PartitionErrors(f"DescribeShareGroupOffsets {group}", errors, found)
    return found


async def alter_share_offsets(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int], *, timeout_s: float | None = None
) -> None:
    """Set start offsets, which resets the state of these partitions' records. Creates the group if there is none.

    Thousands of partitions need several requests, so a failure may leave some of them done.

    Args:
        timeout_s: of each request.

    Raises:
        BrokerError: the coordinator refuses, NON_EMPTY_GROUP (68) while the group has members.
        PartitionErrors: per partition.
        ClusterUnavailable: no answer within the deadline; whether they are set is unknown.
    """
    keys = sorted(offsets)
    for first in range(0, len(keys), IN_A_REQUEST):
        await _alter(cluster, group, {key: offsets[key] for key in keys[first : first + IN_A_REQUEST]}, timeout_s)


async def _alter(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int], timeout_s: float | None) -> None:
    kind = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    part = kind.AlterShareGroupOffsetsRequestPartition
    topics = [
        kind(
            topic_name=topic,
            partitions=[part(partition_index=index, start_offset=offsets[topic, index]) for index in indexes],
        )
        for topic, indexes in by_topic(offsets)
    ]
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=topics)
    response = await on_coordinator(cluster, group, request, _altered_codes, timeout_s=timeout_s)
    if response.error_code:
        why = response.error_message or error_name(response.error_code)
        raise BrokerError(response.error_code, f"AlterShareGroupOffsets {group}: {why}")
    codes = {
        (topic.topic_name, part.partition_index): part.error_code
        for topic in response.responses
        for part in topic.partitions
    }
    missing = {key: int(ErrorCode.UNKNOWN_SERVER_ERROR) for key in offsets if key not in codes}
    errors = {key: code for key, code in codes.items() if code} | missing
    if errors:
        raise PartitionErrors(f"AlterShareGroupOffsets {group}", errors, {})


def _described_codes(response: Any) -> Iterable[int]:
    for group in response.groups:
        yield group.error_code
        for topic in group.topics:
            yield from (part.error_code for part in topic.partitions)


def _altered_codes(response: Any) -> Iterable[int]:
    yield response.error_code
    for topic in response.responses:
        yield from (part.error_code for part in topic.partitions)
