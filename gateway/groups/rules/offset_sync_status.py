"""How the offset sync of one group stands, as it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.kafka.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncStatus:
    """One group's sync. `synced_ms`: wall clock of the last one that succeeded, 0 for none; `error`: why none since.

    `behind`: records that the group has read on the source and the target lacks. `held_back`: partitions whose offset
    on the source is below the one on the target, which is never lowered.
    """

    synced_ms: int = 0
    error: str = ""
    behind: int = 0
    held_back: tuple[TopicPartition, ...] = ()
