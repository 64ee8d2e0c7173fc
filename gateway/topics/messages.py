"""Records of a mirror topic and of its source topic, side by side, for people to believe their eyes.

Nothing is changed. Records of a mirror topic in mode preserve stand at equal offsets; in mode translate the offset map
says which offset of the target a record of the source has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from gateway.errors import BadRequest, Busy, Conflict
from gateway.kafka.logs.log_excerpt import LogExcerpt, RecordExcerpt
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.offset_translation import OffsetMaps
from gateway.operations.records import Records
from gateway.operations.sources import Sources
from protocol.batch.header import OldFormat

WAIT_S: Final = 10.0
"""How long a question waits for the one before it: records are opened for one caller at a time."""

_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True)
class MessagePair:
    """What both clusters have at one place. `offset`: on the target, where the source's record is, or would be."""

    offset: int
    source: RecordExcerpt | None
    target: RecordExcerpt | None

    @property
    def is_equal(self) -> bool:
        """Key, value and headers are the same, to the byte. Not so of what could not be opened."""
        if self.source is None or self.target is None or self.source.note or self.target.note:
            return False
        return self.source.crc == self.target.crc


@dataclass(frozen=True, slots=True)
class SideBySide:
    """By target offset. Ranges are (log start, log end) of the partition, as each cluster said."""

    partition: int
    source_range: tuple[int, int]
    target_range: tuple[int, int]
    pairs: Sequence[MessagePair]


class MirrorMessages:
    """Of all links."""

    def __init__(self, *, records: Records, sources: Sources, target: ClusterAccess, maps: OffsetMaps) -> None:
        self._records = records
        self._sources = sources
        self._target = target
        self._maps = maps
        self._one_by_one = asyncio.Semaphore(1)

    async def read(
        self, link: str, topic: str, partition: int, offset: int | None, count: int, most_bytes: int, caller: str
    ) -> SideBySide:
        """Some records of one partition.

        Args:
            offset: of the source, where to begin; None: `count` offsets before the end of the source's log.
            count: pairs at most, 1 to `MOST_RECORDS`.
            most_bytes: shown of a key and of a value, 0 to `MOST_BYTES`.
            caller: who asks: the log has a line of what was shown to whom.

        Raises:
            NotFound: no such link or mirror topic.
            BadRequest: no such partition.
            Busy: others' questions did not end in `WAIT_S`.
            Conflict: the mirror has no such source any more, or records are of a format before v2.
            SourceUnreachable, TargetUnreachable: a cluster does not answer.
        """
        found = self._records.link(link)
        mirror = self._records.mirror(link, topic)
        if not 0 <= partition < len(mirror.starts):
            raise BadRequest(f"mirror topic '{topic}' has {len(mirror.starts)} partitions: there is no {partition}")
        await self._turn()
        try:
            access = await self._sources.reach(found)
            with source_errors(link):
                source = await _excerpt(access, mirror.source_topic, partition, offset, count, most_bytes)
            first = max(source.start, source.end - count if offset is None else offset)
            on_target = await self._on_target(link, topic, partition, [first, *(one.offset for one in source.records)])
            with target_errors():
                target = await _excerpt(self._target, topic, partition, on_target[first], count, most_bytes)
        finally:
            self._one_by_one.release()
        _log.info(
            "messages shown", link=link, topic=topic, partition=partition, offset=first, count=count, caller=caller
        )
        ranges = (source.start, source.end), (target.start, target.end)
        return SideBySide(partition, *ranges, _paired(source, target, on_target, count))

    async def _turn(self) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                await self._one_by_one.acquire()
        except TimeoutError:
            raise Busy(f"records are being read for others, for {WAIT_S:g} s already; try again") from None

    async def _on_target(self, link: str, topic: str, partition: int, offsets: Sequence[int]) -> dict[int, int]:
        """Where these offsets of the source are on the target."""
        places = [((topic, partition), offset) for offset in offsets]
        maps = await self._maps.between(link).maps_for(places, on_target=False)
        if topic not in maps:
            return {offset: offset for offset in offsets}
        return {offset: maps[topic].to_target(partition, offset).offset for offset in offsets}


async def _excerpt(
    access: ClusterAccess, topic: str, partition: int, first: int | None, count: int, most_bytes: int
) -> LogExcerpt:
    try:
        return await access.excerpt(topic, partition, first, count, most_bytes)
    except OldFormat as exc:
        raise Conflict(f"{topic}-{partition}: {exc}: records of format v0 and v1 are not shown") from exc


def _paired(source: LogExcerpt, target: LogExcerpt, on_target: dict[int, int], count: int) -> Sequence[MessagePair]:
    """Each record once, in the order of the target's offsets."""
    left = {on_target[one.offset]: one for one in source.records}
    right = {one.offset: one for one in target.records}
    places = sorted(left.keys() | right.keys())[:count]
    return [MessagePair(place, left.get(place), right.get(place)) for place in places]
