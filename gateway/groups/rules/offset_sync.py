"""Which offsets of a group that is not promoted yet are committed on the target now. Pure.

While a group reads on the source its committed offsets are carried to the target again and again, so that a failover,
which cannot ask the source any more, gives it little to read again. Three rules:

* what the mirror does not have is not committed: an offset beyond it is cut to the mirror's position;
* an offset on the target is never lowered. A group that was reset on the source keeps the higher offset on the target
  until its promote, which carries the exact one; it is named as held back;
* an offset that does not change is committed again before the target would let it expire
  (offsets.retention.minutes, counted from the last commit of a group without members).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.kafka.topic_partition import TopicPartition

_HOUR_S = 3600.0
_DEFAULT_MIN = 10_080

Value = tuple[int, str]
"""Offset and metadata."""


class Wanted(NamedTuple):
    """One offset of the source, as an offset of the target that the mirror has already.

    `behind`: source offsets by which it had to be cut: records the group has read and the target lacks.
    """

    target: int
    behind: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """`commit`: to be committed now. `held_back`: partitions whose offset on the source is below the one here.

    `behind`: records that the group has read on the source and the mirror does not have yet.
    """

    commit: Mapping[TopicPartition, Value] = field(default_factory=dict)
    held_back: tuple[TopicPartition, ...] = ()
    behind: int = 0


def plan_sync(
    wanted: Mapping[TopicPartition, Wanted], held: Mapping[TopicPartition, Value], *, refresh: bool = False
) -> SyncPlan:
    """What to commit.

    Args:
        wanted: by mirror topic and partition.
        held: what the group has committed on the target now.
        refresh: commit again what is unchanged too, before it expires.
    """
    commit: dict[TopicPartition, Value] = {}
    held_back = []
    for key, one in wanted.items():
        before = held.get(key)
        if before is not None and before[0] > one.target:
            held_back.append(key)
            if refresh:
                commit[key] = before
        elif refresh or before != (one.target, one.metadata):
            commit[key] = (one.target, one.metadata)
    return SyncPlan(commit, tuple(held_back), sum(one.behind for one in wanted.values()))


def refresh_after_s(retention_minutes: int | None) -> float:
    """How old a commit may become: a quarter of the target's offsets.retention.minutes, an hour at most.

    An hour, too, when the target does not tell; its default is 7 days, the least it can be set to 1 minute.
    """
    return min(_HOUR_S, (retention_minutes if retention_minutes is not None else _DEFAULT_MIN) * 60 / 4)
