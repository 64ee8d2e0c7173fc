"""Committed offsets of consumer groups: read, and written from outside the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, PartitionErrors
from gateway.kafka.offsets import by_topic
from gateway.kafka.routed import on_coordinator
from gateway.kafka.topic_partition import TopicPartition
from protocol.errors import ErrorCode, error_name
from protocol.messages import OffsetCommitRequest, OffsetFetchRequest

_BY_NAME = 9  # the last version of OffsetFetch and OffsetCommit that names topics; later ones have ids
NO_EPOCH = -1
"""No leader epoch: one cluster's epoch means nothing on another."""
_NOT_A_MEMBER = -1
_BATCH_BYTES = 512 * 1024  # half of max.message.bytes as it is by default
_RECORD_BYTES = 100  # of an offset's record in __consumer_offsets, without group, topic and metadata


class Committed(NamedTuple):
    """A committed offset: the next one to read. `leader_epoch` is -1 where the group did not give one."""

    offset: int
    leader_epoch: int
    metadata: str


async def committed_offsets(
    cluster: Cluster, group: str, *, timeout_s: float | None = None
) -> dict[TopicPartition, Committed]:
    """Everything a group has committed; empty for a group that does not exist.

    Waits for open transactions with offsets of the group (require_stable), within the deadline.

    Raises:
        ClusterUnavailable: no answer within the deadline.
        BrokerError: the coordinator refuses, for example GROUP_AUTHORIZATION_FAILED (30).
        PartitionErrors: per partition.
    """
    request = OffsetFetchRequest(
        group_id=group,
        topics=None,
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None, member_epoch=-1)],
        require_stable=True,
    )
    response = await on_coordinator(cluster, group, request, _fetch_codes, cap=_BY_NAME, timeout_s=timeout_s)
    answer = response.groups[0] if response.groups else response
    if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    if answer.error_code:
        raise BrokerError(answer.error_code, f"OffsetFetch {group}: {error_name(answer.error_code)}")
    found: dict[TopicPartition, Committed] = {}
    errors: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        for part in topic.partitions:
            if part.error_code:
                errors[topic.name, part.partition_index] = part.error_code
            elif part.committed_offset >= 0:
                epoch = NO_EPOCH if part.committed_leader_epoch is None else part.committed_leader_epoch
                found[topic.name, part.partition_index] = Committed(part.committed_offset, epoch, part.metadata or "")
    if errors:
        raise PartitionErrors(f"OffsetFetch {group}", errors, found)
    return found


async def commit_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, int | tuple[int, str]],
    *,
    timeout_s: float | None = None,
) -> None:
    """Commit for a group from outside: generation -1, no member, no leader epoch. The group must have no members.

    A broker writes each request as one batch, limited by max.message.bytes: a group with thousands of partitions needs
    several requests, so a failure may leave some of them done.

    Args:
        offsets: (topic, partition) -> next offset to read, or (offset, metadata).
        timeout_s: of each request.

    Raises:
        PartitionErrors: per partition; UNKNOWN_MEMBER_ID (25) on all of them when the group has members.
        ClusterUnavailable: no answer within the deadline; whether they are committed is unknown.
    """
    values = {key: (value, "") if isinstance(value, int) else value for key, value in offsets.items()}
    for part in _in_batches(group, values):
        await _commit(cluster, group, part, timeout_s)


_Values = dict[TopicPartition, tuple[int, str]]


def _in_batches(group: str, offsets: _Values) -> Iterable[_Values]:
    """Split so that no request makes a batch larger than the smallest sensible max.message.bytes."""
    found: _Values = {}
    size = 0
    for key in sorted(offsets):
        more = _RECORD_BYTES + len(group.encode()) + len(key[0].encode()) + len(offsets[key][1].encode())
        if found and size + more > _BATCH_BYTES:
            yield found
            found, size = {}, 0
        found[key] = offsets[key]
        size += more
    if found:
        yield found


async def _commit(cluster: Cluster, group: str, offsets: _Values, timeout_s: float | None) -> None:
    part = OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition
    topics = []
    for topic, indexes in by_topic(offsets):
        parts = [
            part(
                partition_index=index,
                committed_offset=offsets[topic, index][0],
                committed_leader_epoch=NO_EPOCH,
                committed_metadata=offsets[topic, index][1],
            )
            for index in indexes
        ]
        topics.append(OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=parts))
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_NOT_A_MEMBER,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=topics,
    )
    response = await on_coordinator(
        cluster, group, request, lambda answer: _commit_codes(answer).values(), cap=_BY_NAME, timeout_s=timeout_s
    )
    codes = _commit_codes(response)
    missing = {partition: int(ErrorCode.UNKNOWN_SERVER_ERROR) for partition in offsets if partition not in codes}
    errors = {partition: code for partition, code in codes.items() if code} | missing
    if errors:
        raise PartitionErrors(f"OffsetCommit {group}", errors, {})


def _fetch_codes(response: Any) -> Iterable[int]:
    answer = response.groups[0] if response.groups else response
    yield answer.error_code
    for topic in answer.topics:
        for part in topic.partitions:
            yield part.error_code


def _commit_codes(response: Any) -> dict[TopicPartition, int]:
    return {
        (topic.name, part.partition_index): part.error_code for topic in response.topics for part in topic.partitions
    }
