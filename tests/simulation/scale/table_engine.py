"""A mirror engine without a mirror: every copy is where its origin is, at once, and nobody fetches or appends.

What is left of a fleet then is what its gateways do themselves with many partitions: who has which, what they tell one
another, the state topic, the operations. A fleet of ten with 100,000 partitions is a matter of minutes so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from gateway.kafka.cluster import Cluster
from gateway.mirror.interface import MirrorEvents, PartitionStatus
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.mirror.partition.rules.producer_table import CarriedTable
from gateway.mirror.rules.copy_ends import CopyEnds, PartitionEnd, RunningPartitions, whole
from gateway.mirror.rules.period import MirrorPartition
from gateway.mirror.rules.progress import MirrorProgress
from gateway.state.records import LinkRecord, MirrorRecord

_HERE = PartitionEnd(0, 0, (), True)


class TableEngine:
    """In place of `mirror/engine/engine.py`: what `MirrorEngine` and `OwnedMirrors` say, of empty topics."""

    def __init__(self, target: Cluster, progress: MirrorProgress, events: MirrorEvents, **_: Any) -> None:
        self._progress = progress
        self._events = events
        self._links: dict[str, LinkRecord] = {}
        self._mirrors: dict[tuple[str, str], MirrorRecord] = {}
        self._owned: dict[tuple[str, str], set[int]] = {}

    # -- OwnedMirrors ----------------------------------------------------------------------------------------------

    def own(self, partitions: frozenset[MirrorPartition] | None) -> None:
        """As the engine; a fleet never owns all."""
        before = self.owned()
        self.own_changed((partitions or frozenset()) - before, before - (partitions or frozenset()))

    def own_changed(self, begun: Collection[MirrorPartition], ended: Collection[MirrorPartition]) -> None:
        """As the engine."""
        for link, topic, index in ended:
            self._owned.get((link, topic), set()).discard(index)
        touched = set()
        for link, topic, index in begun:
            self._owned.setdefault((link, topic), set()).add(index)
            touched.add((link, topic))
        for key in touched:
            self._begin(key)

    def owned(self) -> frozenset[MirrorPartition]:
        """What was named."""
        return frozenset(MirrorPartition(*key, index) for key, indexes in self._owned.items() for index in indexes)

    def running(self) -> frozenset[MirrorPartition]:
        """What runs here."""
        return frozenset(each for each in self.owned() if (each.link, each.topic) in self._mirrors)

    def moving(self) -> Collection[MirrorPartition]:
        """Nothing is written."""
        return ()

    async def release(self, partitions: frozenset[MirrorPartition]) -> Mapping[MirrorPartition, CarriedTable]:
        """As the engine: nobody has written."""
        running = self.running_of(partitions)
        self.own_changed((), partitions)
        return dict.fromkeys(running, CarriedTable(0, ()))

    def running_of(self, partitions: Iterable[MirrorPartition]) -> list[MirrorPartition]:
        """Those of these that run here."""
        return [each for each in partitions if each.partition in self._of((each.link, each.topic))]

    def carry_over(self, tables: Mapping[MirrorPartition, CarriedTable]) -> None:
        """They are empty."""

    async def quiet(self, topics: Collection[tuple[str, str]]) -> bool:
        """Nothing is in flight."""
        return True

    def forwarded(self, topic: str, partition: int, base_offset: int, records: int) -> None:
        """Nobody writes."""

    def status(self, mirror: MirrorRecord, partitions: Sequence[int] | None = None) -> Sequence[PartitionStatus]:
        """As the engine."""
        here = self._of((mirror.link, mirror.mirror_topic))
        return tuple(_status(each) for each in (sorted(here) if partitions is None else partitions) if each in here)

    # -- MirrorEngine ----------------------------------------------------------------------------------------------

    async def start_link(self, link: LinkRecord) -> None:
        """As the engine."""
        self._links.setdefault(link.name, link)

    def update_link(self, link: LinkRecord) -> None:
        """As the engine."""
        self._links[link.name] = link

    def started_links(self) -> Mapping[str, LinkRecord]:
        """As the engine."""
        return dict(self._links)

    async def stop_link(self, link: str) -> None:
        """As the engine."""
        self._links.pop(link, None)
        self._mirrors = {key: mirror for key, mirror in self._mirrors.items() if key[0] != link}

    def start_mirror(self, mirror: MirrorRecord) -> None:
        """As the engine."""
        key = mirror.link, mirror.mirror_topic
        if key not in self._mirrors:
            self._mirrors[key] = mirror
            self._begin(key)

    def started(self) -> Mapping[tuple[str, str], MirrorRecord]:
        """As the engine."""
        return dict(self._mirrors)

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        """As the engine."""
        return self._mirrors.get((link, topic))

    def is_started(self, link: str, topic: str) -> bool:
        """As the engine."""
        return (link, topic) in self._mirrors

    async def stop_mirror(self, link: str, topic: str) -> None:
        """As the engine."""
        self._mirrors.pop((link, topic), None)

    def running_partitions(self, mirror: MirrorRecord) -> RunningPartitions:
        """As the engine."""
        here = self._of((mirror.link, mirror.mirror_topic))
        indexes = range(len(mirror.starts))
        return RunningPartitions(
            tuple(0 if index in here else -1 for index in indexes),
            tuple(index for index in indexes if index not in here),
        )

    def partition_ends(self, mirror: MirrorRecord) -> Sequence[PartitionEnd | None]:
        """As the engine."""
        here = self._of((mirror.link, mirror.mirror_topic))
        return [_HERE if index in here else None for index in range(len(mirror.starts))]

    def ends(self, mirror: MirrorRecord) -> CopyEnds | None:
        """As the engine."""
        return whole(self.partition_ends(mirror))

    async def offset_maps(self, mirror: MirrorRecord) -> Sequence[OffsetMap]:
        """Offsets are equal."""
        return ()

    async def has_offset_map(self, mirror: MirrorRecord) -> bool:
        """Offsets are equal."""
        return False

    # -- what a gateway asks of its engine beside -------------------------------------------------------------------

    def tell_lost(self, events: MirrorEvents) -> None:
        """No source is."""

    def throttled_s(self) -> Mapping[str, float]:
        """Nothing is read."""
        return {}

    def drop_appends(self, reason: str) -> None:
        """There are none."""

    async def close(self) -> None:
        """Nothing runs."""

    def _of(self, key: tuple[str, str]) -> set[int]:
        return self._owned.get(key, set()) if key in self._mirrors else set()

    def _begin(self, key: tuple[str, str]) -> None:
        mirror, here = self._mirrors.get(key), self._of(key)
        if mirror is None:
            return
        for index in here:
            if self._progress.position(key[1], index) is None:
                self._progress.advance(key[1], index, 0)
        if not mirror.readable and len(here) == len(mirror.starts):
            asyncio.get_running_loop().call_soon(self._events.topic_readable, *key)


def _status(partition: int) -> PartitionStatus:
    return PartitionStatus(
        partition=partition,
        phase="copying",
        source_end=0,
        mirrored_to=0,
        target_end=0,
        lag=0,
        lag_ms=0,
        bytes_per_s=0.0,
    )
