"""Where both logs of a mirror topic end, as far as anybody can tell: from it a failover says what it leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from gateway.control.context import ControlContext, target_errors
from gateway.control.errors import Conflict, ControlError
from gateway.control.measure import Measure
from gateway.control.source_ends import SourceEnds
from gateway.domain.records import MirrorMode, MirrorRecord, MirrorState
from gateway.domain.routing_build import written_on_target
from gateway.domain.way_home import Producers

UNKNOWN = -1
WARM_S = 3.0
_WARM_LOOK_S = 0.01
_LOOK_S = 1.5  # a source that is known to answer is asked for its ends; it may be dying


class FailoverEnds:
    """Remembers the source's ends as they were last seen: a source that is to be failed over may not answer."""

    def __init__(self, context: ControlContext, measure: Measure, ends: SourceEnds) -> None:
        self._context = context
        self._measure = measure
        self._ends = ends
        self._seen: dict[tuple[str, str], tuple[int, ...]] = {}
        context.on_deleted.append(lambda mirror: self._seen.pop((mirror.link, mirror.mirror_topic), None))

    async def mirrored(self, record: MirrorRecord) -> tuple[int, ...]:
        """Per partition the source offset up to which the target has everything."""
        return tuple(at for at, _ in await self.copied(record))

    async def copied(self, record: MirrorRecord) -> list[tuple[int, int]]:
        """Per partition the source offset up to which the target has everything, and where the copy's log ends there.

        The copy says so itself, in one look: a position that a mirror has told lacks what was acknowledged while it was
        being stopped, and what other gateways have appended. It tells at most of holes behind the last record.

        Raises:
            ControlError: the copy, or its offset map, cannot be read now.
        """
        topic, partitions = record.mirror_topic, len(record.starts)
        if record.mode is MirrorMode.PRESERVE and not self._context.turned_translated(record.link, topic):
            with target_errors():
                return [(end, end) for _, end in await self._context.target.log_ranges(topic, partitions)]
        with target_errors():
            maps = await self._context.offset_maps(record)
        if len(maps) != partitions:
            raise Conflict(f"the offset map of mirror topic '{topic}' has {len(maps)} of {partitions} partitions")
        told = (self._context.progress.position(topic, partition) for partition in range(partitions))
        return [(max(one.read_to, UNKNOWN if at is None else at), one.end) for one, at in zip(maps, told, strict=True)]

    async def look(self) -> None:
        """Remember where the logs of mirrors end that the engine does not watch now, while their sources answer."""
        for mirror in list(self._context.store.mirrors.values()):
            if mirror.state in (MirrorState.PAUSED, MirrorState.FAILED) and not written_on_target(mirror):
                await self.of_source(mirror)

    async def of_source(self, record: MirrorRecord) -> list[int]:
        """The source's ends as it tells them now, else as they were last seen; -1 where nobody saw them."""
        return (await self.read(record))[0]

    async def read(self, record: MirrorRecord) -> tuple[list[int], bool]:
        """As `of_source`, and whether the source has answered."""
        key, partitions = (record.link, record.mirror_topic), len(record.starts)
        engine = {status.partition: status.source_end for status in self._measure.known(record)}
        before = self._seen.get(key, ())
        known = [
            max(engine.get(partition, UNKNOWN), before[partition] if partition < len(before) else UNKNOWN)
            for partition in range(partitions)
        ]
        health = self._context.health.get(record.link)
        if health is not None and not health.available:
            return known, False
        try:
            async with asyncio.timeout(_LOOK_S):
                link = self._context.link(record.link)
                found = await self._ends.read(link, {record.source_topic: partitions}, _LOOK_S)
        except (ControlError, TimeoutError):
            return known, False
        told = found[record.source_topic]
        tops = told.log_ends if told.log_ends is not None else told.high_watermarks
        self._seen[key] = tuple(tops)
        return [max(pair) for pair in zip(known, tops, strict=True)], True


class KnownProducers(NamedTuple):
    """`tables`: per partition the last batches of producers that are known; `missing`: where that may not be all."""

    tables: Producers
    missing: tuple[int, ...]


async def warmed(context: ControlContext, record: MirrorRecord) -> None:
    """Wait for the producers' last batches to be known, at most WARM_S: a failover cannot wait for ever."""
    for _ in range(round(WARM_S / _WARM_LOOK_S)):
        if not context.engine.standing(record).cold:
            return
        await asyncio.sleep(_WARM_LOOK_S)


def known_producers(context: ControlContext, record: MirrorRecord) -> KnownProducers:
    """What the mirror knows of producers now, in one answer; of partitions that do not run here that is nothing."""
    found = context.engine.partition_ends(record)
    tables = tuple(() if one is None else one.producers for one in found)
    return KnownProducers(tables, tuple(index for index, one in enumerate(found) if one is None or not one.warm))


def left_behind(ends: Sequence[int], mirrored: Sequence[int]) -> tuple[int, ...]:
    """Records on the source beyond what was mirrored. An end below that was never really seen."""
    return tuple(end - at if end >= at else UNKNOWN for end, at in zip(ends, mirrored, strict=True))
