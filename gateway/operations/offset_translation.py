"""A group's offsets from one cluster's numbers to the other's, by the maps as this gateway can read them.

The translation itself is `mirror/offset_map/rules/translation.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from gateway.errors import Conflict, ControlError
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.rules import translation as offsets_between
from gateway.mirror.offset_map.rules.offset_map import OffsetMap, Translation, TranslationRule
from gateway.mirror.offset_map.rules.periods import at_end, before
from gateway.mirror.offset_map.rules.translation import Maps, PeriodMaps, TranslationMaps
from gateway.mirror.rules.copy_ends import CopyEnds
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.records import Records
from gateway.state.records import CarriedOffset, MirrorMode, MirrorRecord, MirrorState, SourceOffset

ReadsOffsetMaps = Callable[[MirrorRecord], Awaitable[Sequence[OffsetMap]]]
"""The offset maps of a mirror topic in mode translate, by partition; a ControlError when they cannot be read now."""

AsksMapTopic = Callable[[MirrorRecord], Awaitable[bool]]
"""Whether the link's map topic has something of a mirror; a ControlError when it cannot be read now."""

_AT_REST = (MirrorState.PAUSED, MirrorState.FAILED)
"""Of a mirror that was STOPPED the record says what became of it; in the other states it runs, or will tell."""

_IN_FLIGHT_MS = 60_000  # a gateway, or a job, that has just been stopped may still write to the map, and tells no more


async def no_offset_maps(mirror: MirrorRecord) -> Sequence[OffsetMap]:
    """Raises Conflict: of a control plane that reads none."""
    raise Conflict(f"the offset map of mirror topic '{mirror.mirror_topic}' is not there yet")


async def no_map_topic(mirror: MirrorRecord) -> bool:
    """False: of a control plane that has none."""
    return False


class OffsetMaps:
    """The offset maps of all mirror topics, and what is translated by them.

    A mirror that runs tells when its offsets are equal no more. Of one that does not run nobody tells: a job may copy
    it, or the process that began to translate is gone. Then its map topic is asked, once for as long as it rests.

    Attributes:
        read: reads those of one mirror.
        turned_translated: (link, mirror topic) -> why: its offsets are translated, whether or not the record says so
            yet. Written by the engine's events.
        found_translated: told (link, mirror topic, why) of a mirror whose map says so and whose record does not.
        copied_by_job: (link, mirror topic) -> whether a job copies it now, and not the engine.
    """

    def __init__(
        self,
        records: Records,
        progress: MirrorProgress,
        read: ReadsOffsetMaps = no_offset_maps,
        ask: AsksMapTopic = no_map_topic,
    ) -> None:
        """`ask`: see `AsksMapTopic`."""
        self.records = records
        self.progress = progress
        self.read = read
        self.ask = ask
        self.turned_translated: dict[tuple[str, str], str] = {}
        self.found_translated: Callable[[str, str, str], None] = lambda link, topic, why: None
        self.copied_by_job: Callable[[tuple[str, str]], bool] = lambda key: False
        self._equal: dict[tuple[str, str], MirrorRecord] = {}  # at rest, and its map has been seen to say nothing
        self._begun_ms = records.now_ms()  # of jobs before nothing is known
        self._copied_until_ms: dict[tuple[str, str], int] = {}  # by a job that has ended since

    async def is_translated(self, mirror: MirrorRecord) -> bool:
        """Whether its offsets are translated: by the record, by what was told, or by the map of a mirror at rest.

        Raises:
            ControlError: the map topic cannot be read now.
        """
        if self._is_told(mirror):
            return True
        key = (mirror.link, mirror.mirror_topic)
        if not self.copied_by_job(key) and (mirror.state not in _AT_REST or self._equal.get(key) is mirror):
            return False
        asked_ms = self.records.now_ms()
        found = await self.by_map_topic(mirror)
        rests_since_ms = max(mirror.state_since_ms, self._copied_until_ms.get(key, self._begun_ms))
        if not found and not self.copied_by_job(key) and asked_ms - rests_since_ms > _IN_FLIGHT_MS:
            self._equal[key] = mirror
        return found

    async def by_map_topic(self, mirror: MirrorRecord) -> bool:
        """As `is_translated`, and whatever the mirror does: the map topic is asked now. Raises as that."""
        if self._is_told(mirror):
            return True
        found = await self.ask(mirror)
        if found:
            self.found_translated(mirror.link, mirror.mirror_topic, "its offset map says so")
        return found

    def _is_told(self, mirror: MirrorRecord) -> bool:
        return mirror.mode is MirrorMode.TRANSLATE or (mirror.link, mirror.mirror_topic) in self.turned_translated

    def job_ended(self, key: tuple[str, str]) -> None:
        """What was found out of this mirror at rest may be so no more."""
        self._equal.pop(key, None)
        self._copied_until_ms[key] = self.records.now_ms()

    def forget(self, key: tuple[str, str]) -> None:
        """Of a mirror that was deleted, or that another one has taken the place of."""
        self._equal.pop(key, None)
        self._copied_until_ms.pop(key, None)

    def between(self, link: str, ended: Mapping[str, CopyEnds] = MappingProxyType({})) -> OffsetsBetween:
        """The offsets of one link's topics, from one cluster to the other.

        `ended`: mirror topics whose mirrors were stopped under a write pause, with where they stood then.
        """
        return OffsetsBetween(self, link, ended)


class OffsetsBetween:
    """Translates the offsets of one link's mirror topics. Topics are named by mirror topic."""

    def __init__(self, maps: OffsetMaps, link: str, ended: Mapping[str, CopyEnds]) -> None:
        self._ended = ended
        self._maps = maps
        self._records = maps.records
        self._link = link

    async def maps(self, topics: Iterable[str]) -> Maps:
        """The maps of the present ways of these topics.

        Raises:
            ControlError: one cannot be read now.
        """
        found = {}
        for topic in sorted(set(topics)):
            mirror = self._records.mirror(self._link, topic)
            if (ends := self._ended.get(topic)) is not None:
                mirror = at_end(mirror, ends)
            if mirror.mode is MirrorMode.TRANSLATE:
                found[topic] = TranslationMaps((await self._of_period(mirror),))
            elif await self._maps.is_translated(mirror):
                raise Conflict(f"mirror topic '{topic}' is being changed to mode translate; try again in a moment")
        return found

    async def maps_for(self, offsets: Iterable[tuple[TopicPartition, int]], *, on_target: bool) -> Maps:
        """The maps that these offsets need, those of mirror periods before included where one is older than the
        present mirror period.

        Raises:
            ControlError: one cannot be read now.
        """
        offsets = tuple(offsets)
        found = dict(await self.maps(topic for (topic, _), _ in offsets))
        for (topic, partition), offset in offsets:
            while topic in found and offset < found[topic].begins(partition, on_target=on_target):
                earlier = before(found[topic].periods[-1].mirror)
                if earlier is None:
                    break
                found[topic] = TranslationMaps((*found[topic].periods, await self._of_period(earlier)))
        return found

    async def _of_period(self, mirror: MirrorRecord) -> PeriodMaps:
        try:
            return PeriodMaps(mirror, await self._maps.read(mirror), Conflict)
        except ControlError:
            raise
        except Exception as exc:
            raise Conflict(f"the offset map of mirror topic '{mirror.mirror_topic}' cannot be read: {exc}") from exc

    async def to_target(self, offsets: Sequence[SourceOffset]) -> tuple[CarriedOffset, ...]:
        """Each with its target offset and how that was found."""
        places = (((one.topic, one.partition), one.offset) for one in offsets)
        maps = await self.maps_for(places, on_target=False)
        carried = []
        for one in offsets:
            mirror = self._records.mirror(self._link, one.topic)
            found = offsets_between.carried(mirror, maps, one.partition, one.offset)
            to = found.offset, one.metadata, found.rule.value
            carried.append(CarriedOffset(one.topic, one.partition, one.offset, *to))
        return tuple(carried)

    async def to_source(
        self, offsets: Mapping[TopicPartition, tuple[int, str]]
    ) -> dict[TopicPartition, tuple[int, str]]:
        """The same offsets (with their metadata) as the source counts them."""
        maps = await self.maps_for(((key, offset) for key, (offset, _) in offsets.items()), on_target=True)
        found = {}
        for (topic, partition), (offset, metadata) in offsets.items():
            back = (
                maps[topic].to_source(partition, offset)
                if topic in maps
                else Translation(offset, TranslationRule.EXACT)
            )
            if back.rule is TranslationRule.BEYOND_END:
                raise Conflict(f"offset {offset} of {topic}-{partition} is beyond what both clusters have")
            found[topic, partition] = (back.offset, metadata)
        return found

    def mirrored(self, offset: SourceOffset, maps: Maps) -> int | None:
        """How far the topic is mirrored, in source offsets; a promoted topic stays where its mirror stopped.

        None where that is not known, as of a mirror that has FAILED: its copy may not go with the source any more.
        """
        mirror = self._records.store.mirrors.get((self._link, offset.topic))
        if mirror is not None and mirror.state is MirrorState.FAILED:
            return None
        position = self._maps.progress.position(offset.topic, offset.partition)
        return offsets_between.mirrored(mirror, offset.topic, maps, offset.partition, offset.offset, position)
