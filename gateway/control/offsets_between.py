"""A group's offsets from one cluster's numbers to the other's: the same in preserve mode, else by the offset map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gateway.control.context import ControlContext
from gateway.control.errors import Conflict
from gateway.domain.group_promote import Partition
from gateway.domain.offset_map import OffsetMap, Rule, Translation
from gateway.domain.records import CarriedOffset, MirrorMode, MirrorRecord, MirrorState

Maps = Mapping[str, Sequence[OffsetMap]]
"""Mirror topic -> partition -> map, of the topics in mode translate."""


class OffsetsBetween:
    """Translates the offsets of one link's mirror topics. Topics are named by mirror topic."""

    def __init__(self, context: ControlContext, link: str) -> None:
        self._context = context
        self._link = link

    async def maps(self, topics: Iterable[str]) -> Maps:
        """The maps that these topics' offsets need.

        Raises:
            ControlError: one cannot be read now.
        """
        found = {}
        for topic in sorted(set(topics)):
            mirror = self._context.mirror(self._link, topic)
            if mirror.mode is MirrorMode.TRANSLATE:
                found[topic] = await self._context.offset_maps(mirror)
        return found

    async def to_target(self, offsets: Sequence[CarriedOffset]) -> tuple[CarriedOffset, ...]:
        """Each with its target offset and how that was found."""
        maps = await self.maps(offset.topic for offset in offsets)
        carried = []
        for offset in offsets:
            found = translated(maps, (offset.topic, offset.partition), offset.source_offset)
            found = _cut(self._context.mirror(self._link, offset.topic), offset, found)
            carried.append(replace(offset, target_offset=found.offset, rule=found.rule.value))
        return tuple(carried)

    async def to_source(self, offsets: Mapping[Partition, tuple[int, str]]) -> dict[Partition, tuple[int, str]]:
        """The same offsets (with their metadata) as the source counts them."""
        maps = await self.maps(topic for topic, _ in offsets)
        found = {}
        for key, (offset, metadata) in offsets.items():
            back = _back(maps, key, offset)
            if back.rule is Rule.BEYOND_END and key[0] in maps:
                where = f"{key[0]}-{key[1]}"
                raise Conflict(
                    f"offset {offset} of {where} lies beyond what was mirrored to it, {maps[key[0]][key[1]].end}"
                )
            found[key] = (back.offset, metadata)
        return found


def translated(maps: Maps, key: Partition, source_offset: int) -> Translation:
    """One offset of the source, on the target."""
    one = _map(maps, key)
    return Translation(source_offset, Rule.EXACT) if one is None else one.to_target(source_offset)


def mirrored_to(maps: Maps, key: Partition) -> int | None:
    """Below which source offset everything is mirrored, as the map says; None in preserve mode."""
    one = _map(maps, key)
    return None if one is None else one.read_to


def is_final(mirror: MirrorRecord) -> bool:
    """True for a topic that failed over: what was not mirrored then never will be."""
    return mirror.state is MirrorState.STOPPED and bool(mirror.not_mirrored)


def _cut(mirror: MirrorRecord, offset: CarriedOffset, found: Translation) -> Translation:
    """In preserve mode an offset beyond what was mirrored at a failover is another record's by now."""
    if mirror.mode is MirrorMode.TRANSLATE or not is_final(mirror) or offset.partition >= len(mirror.stopped_at):
        return found
    end = mirror.stopped_at[offset.partition]
    return found if found.offset <= end else Translation(end, Rule.BEYOND_END)


def _back(maps: Maps, key: Partition, target_offset: int) -> Translation:
    one = _map(maps, key)
    return Translation(target_offset, Rule.EXACT) if one is None else one.to_source(target_offset)


def _map(maps: Maps, key: Partition) -> OffsetMap | None:
    topic, partition = key
    if topic not in maps:
        return None
    if partition >= len(maps[topic]):
        raise Conflict(f"{topic}-{partition} has no offset map yet")
    return maps[topic][partition]
