"""How far a consumer group is behind, by topic: its committed offsets beside the ends of the logs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.kafka.topic_partition import TopicPartition


def lag_by_topic(committed: Mapping[TopicPartition, int], ends: Mapping[str, Sequence[int | None]]) -> dict[str, int]:
    """Topic -> records between what the group has committed and the log ends, summed over partitions.

    A partition without a commit, or whose end is not known (None), counts for nothing; a topic without any other is
    left out. A commit beyond the end is no lag.

    Args:
        committed: (topic, partition) -> offset, negative where there is none.
        ends: topic -> log end offset of each partition.
    """
    found: dict[str, int] = {}
    for (topic, partition), offset in committed.items():
        of_topic = ends.get(topic, ())
        end = of_topic[partition] if partition < len(of_topic) else None
        if offset >= 0 and end is not None:
            found[topic] = found.get(topic, 0) + max(0, end - offset)
    return found
