"""A group's offsets from one cluster's numbers to the other's: the same in preserve mode, else by the offset maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.control.context import ControlContext
from gateway.control.errors import Conflict, ControlError
from gateway.domain.group_promote import Partition
from gateway.domain.offset_map import OffsetMap, Rule, Translation
from gateway.domain.per_partition import of_each
from gateway.domain.records import CarriedOffset, MirrorMode, MirrorRecord, MirrorState
from gateway.domain.ways import before, begin_of


@dataclass(frozen=True, slots=True)
class WayMaps:
    """The maps of one way, by partition, and the mirror's record in it. They count from its origin to its copy."""

    mirror: MirrorRecord
    maps: Sequence[OffsetMap]

    def begins(self, partition: int, *, on_target: bool) -> int:
        """The first offset that belongs to it; 0 on the first way."""
        begin = begin_of(self.mirror)
        if begin is None:
            return 0
        offsets = begin.target if on_target else begin.source
        if partition >= len(offsets):
            raise Conflict(f"mirror topic '{self.mirror.mirror_topic}' has no partition {partition} yet")
        return offsets[partition]

    def of(self, partition: int) -> OffsetMap:
        """The map of a partition."""
        if partition >= len(self.maps):
            raise Conflict(f"{self.mirror.mirror_topic}-{partition} has no offset map yet")
        return self.maps[partition]


@dataclass(frozen=True, slots=True)
class TopicMaps:
    """The ways of one mirror topic in mode translate that are needed, the present one first (`domain/ways.py`)."""

    ways: Sequence[WayMaps]

    def to_target(self, partition: int, source: int) -> Translation:
        """Where a source offset is on the target."""
        way = self._way(partition, source, on_target=False)
        found = way.of(partition)
        return found.to_source(source) if way.mirror.is_reverse else found.to_target(source)

    def to_source(self, partition: int, target: int) -> Translation:
        """Where a target offset is on the source."""
        way = self._way(partition, target, on_target=True)
        found = way.of(partition)
        return found.to_target(target) if way.mirror.is_reverse else found.to_source(target)

    def mirrored_to(self, partition: int) -> int | None:
        """Below which source offset the target has everything; None when it is not behind at all."""
        return None if self.ways[0].mirror.is_reverse else self.ways[0].of(partition).read_to

    def mirrored_back_to(self, partition: int) -> int | None:
        """While the topic is mirrored back: below which target offset the source has everything; None: not known."""
        maps = self.ways[0].maps
        return maps[partition].read_to if partition < len(maps) else None

    def begins(self, partition: int, *, on_target: bool) -> int:
        """The lowest offset that can be translated by these ways."""
        return self.ways[-1].begins(partition, on_target=on_target)

    def _way(self, partition: int, offset: int, *, on_target: bool) -> WayMaps:
        for way in self.ways:
            if offset >= way.begins(partition, on_target=on_target):
                return way
        raise Conflict(
            f"offset {offset} of {self.ways[0].mirror.mirror_topic}-{partition} is older than the change of sides at "
            f"{self.begins(partition, on_target=on_target)}, the last one of which is known where it was; only offsets "
            "from there on can be translated"
        )


Maps = Mapping[str, TopicMaps]
"""By mirror topic; those in preserve mode need none."""


class OffsetsBetween:
    """Translates the offsets of one link's mirror topics. Topics are named by mirror topic."""

    def __init__(self, context: ControlContext, link: str) -> None:
        self._context = context
        self._link = link

    async def maps(self, topics: Iterable[str]) -> Maps:
        """The maps of the present ways of these topics.

        Raises:
            ControlError: one cannot be read now.
        """
        found = {}
        for topic in sorted(set(topics)):
            mirror = self._context.mirror(self._link, topic)
            if mirror.mode is MirrorMode.TRANSLATE:
                found[topic] = TopicMaps((await self._of_way(mirror),))
            elif self._context.turned_translated(self._link, topic):
                raise Conflict(f"mirror topic '{topic}' is being changed to mode translate; try again in a moment")
        return found

    async def maps_for(self, offsets: Iterable[tuple[Partition, int]], *, on_target: bool) -> Maps:
        """The maps that these offsets need, those of ways before included where one is older than the present way.

        Raises:
            ControlError: one cannot be read now.
        """
        offsets = tuple(offsets)
        found = dict(await self.maps(topic for (topic, _), _ in offsets))
        for (topic, partition), offset in offsets:
            while topic in found and offset < found[topic].begins(partition, on_target=on_target):
                earlier = before(found[topic].ways[-1].mirror)
                if earlier is None:
                    break
                found[topic] = TopicMaps((*found[topic].ways, await self._of_way(earlier)))
        return found

    async def _of_way(self, mirror: MirrorRecord) -> WayMaps:
        try:
            return WayMaps(mirror, await self._context.offset_maps(mirror))
        except ControlError:
            raise
        except Exception as exc:
            raise Conflict(f"the offset map of mirror topic '{mirror.mirror_topic}' cannot be read: {exc}") from exc

    async def to_target(self, offsets: Sequence[CarriedOffset]) -> tuple[CarriedOffset, ...]:
        """Each with its target offset and how that was found."""
        places = (((offset.topic, offset.partition), offset.source_offset) for offset in offsets)
        maps = await self.maps_for(places, on_target=False)
        carried = []
        for offset in offsets:
            found = translated(maps, (offset.topic, offset.partition), offset.source_offset)
            found = _cut(self._context.mirror(self._link, offset.topic), offset, found)
            carried.append(replace(offset, target_offset=found.offset, rule=found.rule.value))
        return tuple(carried)

    async def to_source(self, offsets: Mapping[Partition, tuple[int, str]]) -> dict[Partition, tuple[int, str]]:
        """The same offsets (with their metadata) as the source counts them."""
        maps = await self.maps_for(((key, offset) for key, (offset, _) in offsets.items()), on_target=True)
        found = {}
        for (topic, partition), (offset, metadata) in offsets.items():
            back = maps[topic].to_source(partition, offset) if topic in maps else Translation(offset, Rule.EXACT)
            if back.rule is Rule.BEYOND_END:
                raise Conflict(f"offset {offset} of {topic}-{partition} is beyond what both clusters have")
            found[topic, partition] = (back.offset, metadata)
        return found

    def mirrored(self, offset: CarriedOffset, maps: Maps) -> int | None:
        """How far the topic is mirrored, in source offsets; a promoted topic stays where its mirror stopped."""
        mirror = self._context.store.mirrors.get((self._link, offset.topic))
        if mirror is not None and (is_final(mirror) or mirror.is_reverse):
            return offset.source_offset  # nothing more will come, and is cut; or the target is the origin
        if offset.topic in maps:
            return maps[offset.topic].mirrored_to(offset.partition)
        if mirror is not None and mirror.state is MirrorState.STOPPED and offset.partition < len(mirror.starts):
            end: int = of_each(mirror, "stopped_at")[offset.partition]
            return end
        return self._context.progress.position(offset.topic, offset.partition)


def translated(maps: Maps, key: Partition, source_offset: int) -> Translation:
    """One offset of the source, on the target."""
    topic, partition = key
    return maps[topic].to_target(partition, source_offset) if topic in maps else Translation(source_offset, Rule.EXACT)


def is_final(mirror: MirrorRecord) -> bool:
    """True for a topic that failed over: what was not mirrored then never will be."""
    return mirror.state is MirrorState.STOPPED and bool(mirror.not_mirrored)


def _cut(mirror: MirrorRecord, offset: CarriedOffset, found: Translation) -> Translation:
    """In preserve mode an offset beyond what was mirrored at a failover is another record's by now."""
    if mirror.mode is MirrorMode.TRANSLATE or not is_final(mirror) or offset.partition >= len(mirror.starts):
        return found
    end = of_each(mirror, "stopped_at")[offset.partition]
    return found if found.offset <= end else Translation(end, Rule.BEYOND_END)
