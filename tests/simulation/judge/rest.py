"""Who has not read to the end yet: a run is judged when all have, and one in which somebody never does is stuck."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.simulation.clients.member import GroupMember
from tests.simulation.judge.logs import data


def unread(member: GroupMember, cluster: Any) -> list[str]:
    """The partitions that a member's group has not read to their ends, a line each.

    Args:
        member: one whose `positions` are its whole group's.
        cluster: the model of the cluster on which it reads.
    """
    return list(_unread(member, cluster))


def _unread(member: GroupMember, cluster: Any) -> Iterator[str]:
    for topic in member.topics:
        for index in range(len(cluster.topics[topic].partitions)):
            records = data(cluster, topic, index)
            name = member.key((topic, index))
            at, end = member.positions.get((member.side, name), 0), records[-1].offset + 1 if records else 0
            # What was committed when the group came is behind a position that nobody here has read to.
            committed = cluster.committed(member.group).get((topic, index), 0)
            if max(at, committed) < end:
                yield f"{member.name}: group {member.group} on {member.side} has read {name} to {at} of {end}"
