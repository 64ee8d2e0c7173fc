"""A group's offsets from one cluster's numbers to the other's: the same in preserve mode, else by the offset maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.control.context import ControlContext
from gateway.control.errors import Conflict, ControlError
from gateway.domain.group_promote import Partition
from gateway.domain.offset_map import OffsetMap, Rule, Translation
from gateway.domain.records import CarriedOffset, MirrorDirection, MirrorMode, MirrorRecord, MirrorState


@dataclass(frozen=True, slots=True)
class TopicMaps:
    """The maps of one mirror topic in mode translate, by partition.

    `forward` counts from the source to the target. `back` is there while the topic is mirrored back, and counts from
    the target to the source; then offsets below the flip go by `forward`, those from it on by `back`.
    """

    mirror: MirrorRecord
    forward: Sequence[OffsetMap]
    back: Sequence[OffsetMap] | None = None

    def to_target(self, partition: int, source: int) -> Translation:
        """Where a source offset is on the target."""
        if self.back is not None and source >= _at(self.mirror.handed_over_at, partition):
            return _one(self.mirror, self.back, partition).to_source(source)
        found = _one(self.mirror, self.forward, partition).to_target(source)
        oldest = self.mirror.handed_over_from if self.back is None else self.mirror.forward_from
        return self._known(partition, source, found, _at(oldest, partition))

    def to_source(self, partition: int, target: int) -> Translation:
        """Where a target offset is on the source."""
        if self.back is not None and target >= _at(self.mirror.handed_over_from, partition):
            return _one(self.mirror, self.back, partition).to_target(target)
        found = _one(self.mirror, self.forward, partition).to_source(target)
        oldest = self.mirror.handed_over_at if self.back is None else self.mirror.forward_at
        return self._known(partition, target, found, _at(oldest, partition))

    def mirrored_to(self, partition: int) -> int | None:
        """Below which source offset the target has everything; None when it is not behind at all."""
        return None if self.back is not None else _one(self.mirror, self.forward, partition).read_to

    def _known(self, partition: int, offset: int, found: Translation, oldest: int) -> Translation:
        """After a way home the map begins at the flip: what is older is in the maps of the ways before."""
        if found.rule is Rule.LOG_START and offset < oldest:
            raise Conflict(
                f"offset {offset} of {self.mirror.mirror_topic}-{partition} is older than the last change of sides at "
                f"{oldest}; only offsets from there on can be translated"
            )
        return found


Maps = Mapping[str, TopicMaps]
"""By mirror topic; those in preserve mode need none."""


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
                found[topic] = await self._of_topic(mirror)
            elif self._context.turned_translated(self._link, topic):
                raise Conflict(f"mirror topic '{topic}' is being changed to mode translate; try again in a moment")
        return found

    async def _of_topic(self, mirror: MirrorRecord) -> TopicMaps:
        try:
            if not mirror.is_reverse:
                return TopicMaps(mirror, await self._context.offset_maps(mirror))
            if mirror.generation and any(mirror.handed_over_at) and not mirror.forward_at:
                raise ValueError("it changed sides when an older version led the fleet, which did not keep where")
            return TopicMaps(mirror, await self._forward(mirror), await self._context.offset_maps(mirror))
        except ControlError:
            raise
        except Exception as exc:
            raise Conflict(f"the offset map of mirror topic '{mirror.mirror_topic}' cannot be read: {exc}") from exc

    async def _forward(self, mirror: MirrorRecord) -> Sequence[OffsetMap]:
        """The maps to the target of a topic that is mirrored back; none where the old source was created anew."""
        if not any(mirror.handed_over_at):
            return ()
        forward = replace(
            mirror,
            direction=MirrorDirection.FORWARD,
            stopped_at=mirror.handed_over_at,
            stopped_copy_at=mirror.handed_over_from,
            handed_over_at=mirror.forward_at,
            handed_over_from=mirror.forward_from,
        )
        return await self._context.offset_maps(forward)

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
        if mirror is not None and offset.partition < len(mirror.stopped_at):
            return mirror.stopped_at[offset.partition]
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
    if mirror.mode is MirrorMode.TRANSLATE or not is_final(mirror) or offset.partition >= len(mirror.stopped_at):
        return found
    end = mirror.stopped_at[offset.partition]
    return found if found.offset <= end else Translation(end, Rule.BEYOND_END)


def _one(mirror: MirrorRecord, maps: Sequence[OffsetMap], partition: int) -> OffsetMap:
    if partition >= len(maps):
        raise Conflict(f"{mirror.mirror_topic}-{partition} has no offset map yet")
    return maps[partition]


def _at(offsets: Sequence[int], partition: int) -> int:
    return offsets[partition] if partition < len(offsets) else 0
