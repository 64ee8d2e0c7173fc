"""How the offset sync of one group stands, as it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.kafka.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncStatus:
    """One group's sync. `synced_ms`: wall clock of the last one that succeeded, 0 for none; `error`: why none since.

    `behind`: records that the group has read on the source and the target lacks. `held_back`: partitions whose offset
    on the source is below the one on the target, which is never lowered. `committed`, `errors`: offsets that were
    committed, and rounds that failed, since this gateway leads; `round_s`: how long the last good round took.
    """

    synced_ms: int = 0
    error: str = ""
    behind: int = 0
    held_back: tuple[TopicPartition, ...] = ()
    committed: int = 0
    errors: int = 0
    round_s: float = 0.0
