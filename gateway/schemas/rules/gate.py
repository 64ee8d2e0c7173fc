"""Which ids that records have the target's registry does not know: the question before a promote. Pure.

Ids are sampled, from the first records of some batches, so that asking costs next to nothing. What is kept of a topic
is bounded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_IDS: Final = 1_000
"""Ids that are kept of a topic."""


@dataclass(slots=True)
class SeenIds:
    """Ids that were seen in records, by mirror topic. `more`: topics that had more than are kept."""

    by_topic: dict[str, set[int]] = field(default_factory=dict)
    more: set[str] = field(default_factory=set)

    def saw(self, topic: str, ids: Iterable[int]) -> None:
        """In a batch of the topic."""
        known = self.by_topic.setdefault(topic, set())
        for schema_id in ids:
            if len(known) >= MAX_IDS and schema_id not in known:
                self.more.add(topic)
                return
            known.add(schema_id)

    def all(self) -> frozenset[int]:
        """Of every topic."""
        return frozenset(schema_id for ids in self.by_topic.values() for schema_id in ids)


@dataclass(frozen=True, slots=True)
class TopicIds:
    """Ids of one topic: those that were seen, and of them those that the target's registry does not know."""

    topic: str
    seen: tuple[int, ...]
    unknown: tuple[int, ...]
    more: bool = False


def ids_by_topic(seen: SeenIds, known: Collection[int], of_source: Mapping[int, bool]) -> list[TopicIds]:
    """By topic.

    Args:
        known: to the target's registry.
        of_source: of each other id, whether the source's registry knows it. What neither knows is no id: the topic's
            records only look as if they had one.
    """
    return [
        TopicIds(
            topic,
            tuple(sorted(schema_id for schema_id in ids if schema_id in known or of_source.get(schema_id, True))),
            tuple(sorted(schema_id for schema_id in ids if schema_id not in known and of_source.get(schema_id, True))),
            topic in seen.more,
        )
        for topic, ids in sorted(seen.by_topic.items())
    ]


def list_ids(ids: Collection[int], most: int = 5) -> str:
    """Some of the ids, for a message."""
    first = ", ".join(map(str, sorted(ids)[:most]))
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return f"schema id{'s' if len(ids) > 1 else ''} {first}{more}"
