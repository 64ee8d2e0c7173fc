"""Translates offsets of a mirror topic between the clusters: equal in mode preserve, else by its maps. Pure.

The only translation there is: the control plane uses it for the groups that it carries over, the Spark jobs for offsets
that they are given. They differ only in how they read the maps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.rules.offset_map import OffsetMap, Translation, TranslationRule
from gateway.mirror.offset_map.rules.periods import begin_of
from gateway.state.per_partition import of_each
from gateway.state.records import MirrorMode, MirrorRecord, MirrorState


class CannotTranslate(ValueError):
    """An offset cannot be translated; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class PeriodMaps:
    """The maps of one mirror period, by partition, and its record. They map its origin's offsets to its copy's.

    `refused`: the exception for an offset that cannot be translated.
    """

    mirror: MirrorRecord
    maps: Sequence[OffsetMap]
    refused: type[Exception] = CannotTranslate

    def begins(self, partition: int, *, on_target: bool) -> int:
        """The first offset that belongs to this period; 0 in the first one."""
        begin = begin_of(self.mirror)
        if begin is None:
            return 0
        offsets = begin.target if on_target else begin.source
        if partition >= len(offsets):
            raise self.refused(f"mirror topic '{self.mirror.mirror_topic}' has no partition {partition} yet")
        return offsets[partition]

    def of(self, partition: int) -> OffsetMap:
        """A partition's map. Raises `refused` if it has none yet."""
        if partition >= len(self.maps):
            raise self.refused(f"{self.mirror.mirror_topic}-{partition} has no offset map yet")
        return self.maps[partition]


@dataclass(frozen=True, slots=True)
class TranslationMaps:
    """The needed periods of one mirror topic in mode translate, the present one first
    (`mirror/offset_map/rules/periods.py`)."""

    periods: Sequence[PeriodMaps]

    def to_target(self, partition: int, source: int) -> Translation:
        """The target offset for a source offset. Raises `refused` for one older than these periods."""
        period = self._period(partition, source, on_target=False)
        found = period.of(partition)
        return found.to_source(source) if period.mirror.is_reverse else found.to_target(source)

    def to_source(self, partition: int, target: int) -> Translation:
        """The source offset for a target offset. Raises `refused` for one older than these periods."""
        period = self._period(partition, target, on_target=True)
        found = period.of(partition)
        return found.to_target(target) if period.mirror.is_reverse else found.to_source(target)

    def mirrored_to(self, partition: int) -> int | None:
        """The source offset below which the target has everything; None in reverse: the target is never behind."""
        return None if self.periods[0].mirror.is_reverse else self.periods[0].of(partition).read_to

    def mirrored_back_to(self, partition: int) -> int | None:
        """While the topic is mirrored back: the target offset below which the source has everything; None: unknown."""
        maps = self.periods[0].maps
        return maps[partition].read_to if partition < len(maps) else None

    def begins(self, partition: int, *, on_target: bool) -> int:
        """The lowest offset that these periods can translate."""
        return self.periods[-1].begins(partition, on_target=on_target)

    def _period(self, partition: int, offset: int, *, on_target: bool) -> PeriodMaps:
        for period in self.periods:
            if offset >= period.begins(partition, on_target=on_target):
                return period
        raise self.periods[0].refused(
            f"offset {offset} of {self.periods[0].mirror.mirror_topic}-{partition} is older than the change of "
            f"sides at "
            f"{self.begins(partition, on_target=on_target)}, the last one of which is known where it was; only offsets "
            "from there on can be translated"
        )


Maps = Mapping[str, TranslationMaps]
"""By mirror topic; topics in mode preserve need none."""


def translated(maps: Maps, key: TopicPartition, source_offset: int) -> Translation:
    """The target offset for one source offset."""
    topic, partition = key
    return (
        maps[topic].to_target(partition, source_offset)
        if topic in maps
        else Translation(source_offset, TranslationRule.EXACT)
    )


def carried(mirror: MirrorRecord, maps: Maps, partition: int, source_offset: int) -> Translation:
    """The offset that a group at a source offset gets on the target.

    In mode preserve, an offset beyond what was mirrored at a failover belongs to another record by now.
    """
    found = translated(maps, (mirror.mirror_topic, partition), source_offset)
    if mirror.mode is MirrorMode.TRANSLATE or not is_final(mirror) or partition >= len(mirror.starts):
        return found
    end = of_each(mirror, mirror.cutover.stopped_at, "stopped_at")[partition]
    return found if found.offset <= end else Translation(end, TranslationRule.BEYOND_END)


def mirrored(
    mirror: MirrorRecord | None, topic: str, maps: Maps, partition: int, source_offset: int, position: int | None
) -> int | None:
    """How far a topic is mirrored, in source offsets; a promoted topic stays where its mirror stopped.

    Args:
        mirror: of the topic; None if there is none.
        source_offset: the offset in question; returned if no more records will come, or the target is the origin.
        position: of a running mirror in mode preserve; None if unknown.
    """
    if mirror is not None and (is_final(mirror) or mirror.is_reverse):
        return source_offset  # no more records will come, and `carried` caps the offset; or the target is the origin
    if topic in maps:
        return maps[topic].mirrored_to(partition)
    if mirror is not None and mirror.state is MirrorState.STOPPED and partition < len(mirror.starts):
        return of_each(mirror, mirror.cutover.stopped_at, "stopped_at")[partition]
    return position


def is_final(mirror: MirrorRecord) -> bool:
    """True for a topic that failed over: records not mirrored by then never will be."""
    return mirror.state is MirrorState.STOPPED and bool(mirror.cutover.not_mirrored)
