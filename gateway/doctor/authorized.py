"""What a principal may do, as brokers tell it: AclOperations as bits (KIP-430). Nothing is changed by asking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.doctor.rules.rights import NOT_TOLD
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, UnsupportedVersion
from protocol.errors import ErrorCode, error_name
from protocol.messages import DescribeClusterRequest, DescribeGroupsRequest, MetadataRequest

_AT_ONCE: Final = 200
_METADATA_CAP: Final = 9
_GROUPS_CAP: Final = 5
"""From version 6 on a group that is not there has an error in place of its operations (KIP-1043)."""


async def topic_operations(cluster: Cluster, names: Sequence[str]) -> dict[str, int]:
    """What this user may do with topics, there or not: AclOperations as bits, by name (Metadata v8, KIP-430).

    0 for a topic that it may not describe: READ, WRITE, DELETE and ALTER imply that. Topics that the broker does not
    tell of (before 2.3) are left out.

    Raises:
        NetError: the cluster does not answer.
    """
    found: dict[str, int] = {}
    for at in range(0, len(names), _AT_ONCE):
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names[at : at + _AT_ONCE]]
        request = MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=True,
        )
        response = await cluster.request(request, cap=_METADATA_CAP)
        for topic in response.topics:
            if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                found[topic.name] = 0
            elif topic.topic_authorized_operations != NOT_TOLD:
                found[topic.name] = topic.topic_authorized_operations
    return found


async def cluster_operations(cluster: Cluster) -> int:
    """What this user may do with the cluster, as bits; `NOT_TOLD` by brokers before 2.8 (DescribeCluster, KIP-700).

    Raises:
        NetError: the cluster does not answer, or refuses.
    """
    try:
        response = await cluster.request(DescribeClusterRequest(include_cluster_authorized_operations=True))
    except UnsupportedVersion:
        return NOT_TOLD
    if response.error_code:
        raise BrokerError(response.error_code, f"DescribeCluster: {error_name(response.error_code)}")
    return int(response.cluster_authorized_operations)


async def group_operations(cluster: Cluster, group: str) -> int:
    """What this user may do with a group, there or not, as bits; `NOT_TOLD` by brokers before 2.3 and of some groups.

    Raises:
        NetError: its coordinator is not found, or does not answer.
    """
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
    try:
        node = await cluster.coordinator(group)
        response = await cluster.request(request, node_id=node, cap=_GROUPS_CAP)
    except BrokerError as exc:
        if exc.code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return 0
        raise
    (found,) = response.groups
    if found.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return 0
    return NOT_TOLD if found.error_code else int(found.authorized_operations)
