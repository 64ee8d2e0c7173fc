"""Events of the owner of a topic, who goes on as if nobody migrated it: on either cluster, at any step.

He adds partitions, alters configs, deletes records, his group, or the topic. The topic, its clients and what is excused
of it are in `operations/owned.py`; every other topic of the run is judged as always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from protocol.errors import ErrorCode
from tests.simulation.faults.stage import Stage
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.plan import OWNED, OWNED_GROUP, Event, EventKind
from tests.simulation.recorder import SOURCE

_MOST: Final = 6
"""Partitions that a topic is given."""


class OwnerEvents:
    """`table`: as `NetworkEvents.table`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._numbers = iter(range(1_000_000))
        self.table: Mapping[EventKind, Callable[[Event], str]] = {
            EventKind.OWNER_ADDS: self._adds,
            EventKind.OWNER_ALTERS: self._alters,
            EventKind.OWNER_DELETES_RECORDS: self._deletes_records,
            EventKind.OWNER_DELETES_GROUP: self._deletes_group,
            EventKind.OWNER_DELETES_TOPIC: self._deletes_topic,
        }

    def _cluster(self, event: Event) -> ClusterModel | None:
        """Where it happens; None where the topic is not there."""
        cluster = self._stage.source if event.side == SOURCE else self._stage.target
        return cluster if OWNED in cluster.topics else None

    def _adds(self, event: Event) -> str:
        cluster = self._cluster(event)
        if cluster is None or len(cluster.topics[OWNED].partitions) >= _MOST:
            return ""
        count = len(cluster.topics[OWNED].partitions) + 1
        cluster.add_partitions(cluster.topics[OWNED], count)
        self._stage.owned.grown(event.side, count)
        return f"{OWNED} has {count} partitions on the {event.side}"

    def _alters(self, event: Event) -> str:
        cluster = self._cluster(event)
        if cluster is None:
            return ""
        minutes = 900 + next(self._numbers)
        synced, own = {"retention.ms": str(minutes * 60_000)}, {"segment.ms": str(minutes * 1_000)}
        self._stage.owned.altered(event.side, synced, own)
        cluster.alter_topic(OWNED, {**synced, **own})
        return f"{OWNED} gets {synced} and {own} on the {event.side}"

    def _deletes_records(self, event: Event) -> str:
        cluster = self._cluster(event)
        other = self._stage.target if event.side == SOURCE else self._stage.source
        if cluster is None or OWNED not in other.topics or not self._stage.owned.is_preserved:
            return ""
        told = []
        for index in range(min(len(cluster.topics[OWNED].partitions), len(other.topics[OWNED].partitions))):
            start, end, mark, _ = cluster.log_range(OWNED, index)
            before = start + (min(end, mark, other.log_range(OWNED, index)[2]) - start) // 2
            if before <= start:
                continue
            gone = [each.value for each in cluster.records(OWNED, index) if each.offset < before]
            error, _ = cluster.partition(OWNED, index).delete_records(before)
            if error is ErrorCode.NONE:
                self._stage.owned.records_deleted(event.side, index, before, gone)
                told.append(f"{index}: {before}")
        return f"{OWNED} begins at {', '.join(told)} on the {event.side}" if told else ""

    def _deletes_group(self, event: Event) -> str:
        """Of the coordinator, as with a client's request."""
        cluster = self._stage.source if event.side == SOURCE else self._stage.target
        broker = cluster.brokers[cluster.coordinator("group", OWNED_GROUP).leader_id]
        groups = cluster.groups.find(broker, OWNED_GROUP)
        before = cluster.committed(OWNED_GROUP)
        if isinstance(groups, ErrorCode) or groups.delete(OWNED_GROUP) is not ErrorCode.NONE:
            return ""
        self._stage.owned.group_deleted()
        return f"group {OWNED_GROUP}, which had committed {before}, is deleted on the {event.side}"

    def _deletes_topic(self, event: Event) -> str:
        cluster = self._cluster(event)
        if cluster is None:
            return ""
        cluster.delete_topic(OWNED)
        cluster.groups.topic_deleted(OWNED)
        self._stage.owned.topic_deleted(event.side)
        return f"{OWNED} is deleted on the {event.side}"
