"""An offset map from a file, for the audit of two clusters without a link."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from gateway.jobs.audit.relation import Relation
from gateway.kafka.topic_partition import TopicPartition


def relations(segments: DataFrame) -> dict[TopicPartition, Relation | str]:
    """SEGMENTS -> how the offsets of each partition relate, or what is wrong with its segments."""
    columns = segments.orderBy("topic", "partition", "source_base", "count").toArrow().to_pydict()
    rows = zip(*(columns[name] for name in segments.columns), strict=True)
    found: dict[TopicPartition, list[tuple[int, int, int]]] = {}
    for topic, partition, source, target, count in rows:
        found.setdefault((topic, partition), []).append((source, target, count))
    return {key: _relation(each) for key, each in found.items()}


def _relation(segments: Iterable[tuple[int, int, int]]) -> Relation | str:
    try:
        return Relation(segments)
    except ValueError as exc:
        return str(exc)
