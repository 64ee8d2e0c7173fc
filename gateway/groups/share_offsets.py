"""Where a group stands on a cluster, whatever its kind: committed offsets, or the start offsets of a share group.

So promotes, demotes, failovers and offset sync need not know how a group consumes. A start offset is carried like a
committed one: all before it is done with, and the record at it is to be delivered. What was acknowledged behind it no
API tells: `rules/share_delivery.py` says what follows from that.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.kafka.cluster import Cluster
from gateway.kafka.commits import NO_EPOCH, Committed, commit_offsets, committed_offsets
from gateway.kafka.share_groups import alter_share_offsets, share_offsets
from gateway.kafka.topic_partition import TopicPartition
from gateway.state.records import GroupKind


async def held_offsets(cluster: Cluster, group: str, kind: GroupKind) -> Mapping[TopicPartition, Committed]:
    """As the cluster has them; of a share group without metadata. See `committed_offsets`, `share_offsets`."""
    if kind is not GroupKind.SHARE:
        return await committed_offsets(cluster, group)
    return {key: Committed(start.offset, NO_EPOCH, "") for key, start in (await share_offsets(cluster, group)).items()}


async def set_offsets(
    cluster: Cluster, group: str, kind: GroupKind, offsets: Mapping[TopicPartition, tuple[int, str]]
) -> None:
    """Of a group without members, by offset and metadata. See `commit_offsets`, `alter_share_offsets`."""
    if kind is not GroupKind.SHARE:
        await commit_offsets(cluster, group, offsets)
    elif offsets:
        await alter_share_offsets(cluster, group, {key: offset for key, (offset, _) in offsets.items()})
