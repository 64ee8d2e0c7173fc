"""Where both logs of a mirror topic end, as far as known: from this a failover counts what it leaves behind.

Unknown values are None.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeVar

from gateway.cutover.failover.rules.snapshot import CopyEnd, KnownBatches, KnownProducers, SourceReading
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import Conflict, ControlError
from gateway.mirror.interface import MirrorEngine
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.operations.cluster_errors import target_errors
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.operations.offset_translation import OffsetMaps
from gateway.operations.origin_ends import Asked, LogEnds, SourceEnds
from gateway.operations.records import Records
from gateway.operations.sources import LinkHealth
from gateway.state.link_config import parse
from gateway.state.records import MirrorRecord, MirrorState
from gateway.topics.status import Measure

_T = TypeVar("_T")
_LOOK_S = 1.5  # a source that is known to answer may be failing just now
_COPY_S = 5.0


class FailoverEnds:
    """Remembers the source's ends as last seen: at a failover the source may not answer."""

    def __init__(
        self,
        *,
        records: Records,
        target_ends: SourceEnds,
        maps: OffsetMaps,
        measure: Measure,
        ends: SourceEnds,
        health: Mapping[str, LinkHealth],
        deleted: DeletedMirrors,
    ) -> None:
        """`ends`: reads the source's log ends, `target_ends` those of the target. `health`: by link name, live."""
        self._records = records
        self._store = records.store
        self._target_ends = target_ends
        self._maps = maps
        self._health = health
        self._measure = measure
        self._ends = ends
        self._seen: dict[tuple[str, str], tuple[int | None, ...]] = {}
        deleted.subscribe(lambda mirror: self._seen.pop((mirror.link, mirror.mirror_topic), None))

    async def copied(self, record: MirrorRecord) -> tuple[CopyEnd | None, ...]:
        """For each partition, the source offset up to which the target has everything, and the copy's log end; None
        for a partition whose copy does not tell.

        The copy itself is read, at one moment: a mirror's reported position lacks appends acknowledged while it was
        being stopped, and those of other gateways; it is too high when the copy has lost records since. The reported
        position counts if it belongs to this very end of the copy: then it includes gaps after the last record.

        Raises:
            ControlError: the copy, or its offset map, cannot be read now.
        """
        partitions = len(record.starts)
        if not await self._maps.by_map_topic(record):  # read it: no gateway may be left that knows it
            ends = await self._copy_ends(record)
            return _of_each(
                partitions, [_above(CopyEnd(mark, mark), ends, at) for at, mark in enumerate(ends.high_watermarks)]
            )
        with target_errors():
            maps = await self._maps.read(record)
        ends = await self._copy_ends(record)  # after the maps, whose own ends are earlier high watermarks
        told = {(one.partition, one.target_end): one.mirrored_to for one in self._measure.known(record)}
        found = [_mapped(one, told.get((index, one.end))) for index, one in enumerate(maps)]
        return _of_each(partitions, [None if one is None else _above(one, ends, at) for at, one in enumerate(found)])

    async def _copy_ends(self, record: MirrorRecord) -> LogEnds:
        topic = record.mirror_topic
        asked = {topic: len(record.starts)}
        return (await self._target_ends.read(self._records.link(record.link), asked, _COPY_S, Asked.LOG_ENDS))[topic]

    async def on_the_copy(self, record: MirrorRecord) -> tuple[CopyEnd, ...]:
        """Same as `copied`, complete.

        Raises:
            ControlError: the copy cannot be read now, or does not tell for a partition.
        """
        found = await self.copied(record)
        whole = tuple(one for one in found if one is not None)
        if len(whole) != len(found):
            missing = ", ".join(str(at) for at, one in enumerate(found) if one is None)
            raise Conflict(
                f"the target does not say where the copy of mirror topic '{record.mirror_topic}' ends, partition "
                f"{missing}; try again"
            )
        return whole

    async def look(self) -> None:
        """Note the log ends of mirrors that the engine does not watch now, while their sources answer."""
        for mirror in list(self._store.mirrors.values()):
            stands = mirror.state in (MirrorState.PAUSED, MirrorState.FAILED) or self._is_paused(mirror)
            if stands and not written_on_target(mirror):
                await self.read(mirror)

    def _is_paused(self, mirror: MirrorRecord) -> bool:
        """True when the mirror's link is paused."""
        link = self._store.links.get(mirror.link)
        return link is not None and parse(link.configs).paused

    async def read(self, record: MirrorRecord) -> SourceReading:
        """The source's present ends, else those last seen. Asks the source for at most 1.5 s."""
        key, partitions = (record.link, record.mirror_topic), len(record.starts)
        engine = {status.partition: status.source_end for status in self._measure.known(record)}
        before = _of_each(partitions, self._seen.get(key, ()))
        known = tuple(_later(engine.get(at), before[at]) for at in range(partitions))
        health = self._health.get(record.link)
        if health is not None and not health.available:
            return SourceReading(known, answered=False)
        try:
            async with asyncio.timeout(_LOOK_S):
                link = self._records.link(record.link)
                found = await self._ends.read(link, {record.source_topic: partitions}, _LOOK_S)
        except (ControlError, TimeoutError):
            return SourceReading(known, answered=False)
        told = found[record.source_topic]
        log_end_offsets = _of_each(partitions, told.log_ends if told.log_ends is not None else told.high_watermarks)
        self._seen[key] = log_end_offsets
        return SourceReading(tuple(_later(*pair) for pair in zip(known, log_end_offsets, strict=True)), answered=True)


def known_producers(engine: MirrorEngine, record: MirrorRecord) -> KnownProducers:
    """The producer batches that the mirror knows now, at one moment; none for partitions that do not run here."""
    found = _of_each(len(record.starts), engine.partition_ends(record))
    tables = tuple(() if one is None else KnownBatches(one.producers, one.following) for one in found)
    return KnownProducers(tables, tuple(index for index, one in enumerate(found) if one is None or not one.warm))


def _mapped(found: OffsetMap, told: int | None) -> CopyEnd | None:
    """`told`: a mirror's reported position for this very end of the copy."""
    if found.end > 0 and not len(found) and not found.read_to and told is None:
        return None  # the log has records, and their source offsets are unknown
    return CopyEnd(found.read_to if told is None else max(found.read_to, told), found.end)


def _above(copy: CopyEnd, ends: LogEnds, partition: int) -> CopyEnd:
    """Add how much the leader's log has above the high watermark, if the cluster reports it."""
    log_ends = ends.log_ends or ()
    return copy._replace(above=max(0, log_ends[partition] - copy.copy_end)) if partition < len(log_ends) else copy


def _of_each(partitions: int, found: Sequence[_T | None]) -> tuple[_T | None, ...]:
    """An entry per partition: None for those without an answer."""
    return tuple(found[at] if at < len(found) else None for at in range(partitions))


def _later(one: int | None, other: int | None) -> int | None:
    """The higher of two known ends; a negative one is unknown."""
    return max((end for end in (one, other) if end is not None and end >= 0), default=None)
