"""A group's offsets from one cluster's numbers to the other's, by the maps as this gateway can read them.

The translation itself is `domain/offsets_between.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gateway.control.context import ControlContext
from gateway.control.errors import Conflict, ControlError
from gateway.domain import offsets_between
from gateway.domain.group_promote import Partition
from gateway.domain.offset_map import Rule, Translation
from gateway.domain.offsets_between import Maps, TopicMaps, WayMaps
from gateway.domain.records import CarriedOffset, MirrorMode, MirrorRecord
from gateway.domain.ways import before


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
            return WayMaps(mirror, await self._context.offset_maps(mirror), Conflict)
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
            mirror = self._context.mirror(self._link, offset.topic)
            found = offsets_between.carried(mirror, maps, offset.partition, offset.source_offset)
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
        position = self._context.progress.position(offset.topic, offset.partition)
        return offsets_between.mirrored(mirror, offset.topic, maps, offset.partition, offset.source_offset, position)
