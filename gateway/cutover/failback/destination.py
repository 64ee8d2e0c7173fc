"""Reads the failback destination: the topic on a link's source that was mirrored once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from gateway.cutover.failback.rules.failback import records_after_cutover
from gateway.cutover.failback.rules.snapshot import FailbackDestination
from gateway.errors import Conflict, SourceUnreachable
from gateway.mirror.offset_map.rules.offset_map import OffsetMap, TranslationRule
from gateway.mirror.partition.rules.last_batch import LastBatch, are_alike
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import knows_no_topic, source_errors, target_errors
from gateway.operations.offset_translation import OffsetMaps
from gateway.operations.origin_ends import SourceEnds
from gateway.operations.records import Records
from gateway.operations.sources import Sources
from gateway.state.per_partition import WrongLength, handed_over, stopped
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorMode, MirrorRecord

_READ_S = 10.0
_COMPARE_S = 30.0
_AT_ONCE = 16


class FailbackDestinations:
    """Reads failback destinations. `ends`: reads the source's log ends."""

    def __init__(
        self, *, records: Records, sources: Sources, target: ClusterAccess, maps: OffsetMaps, ends: SourceEnds
    ) -> None:
        self._records = records
        self._sources = sources
        self._target = target
        self._maps = maps
        self._ends = ends

    async def read(self, record: MirrorRecord, *, compared: bool = False) -> FailbackDestination:
        """The topic as it is now, and who wrote its last batch beyond the cutover.

        Args:
            compared: also compare the last batch before the cutover with the target's.

        Raises:
            SourceUnreachable: the source does not answer, or its brokers do not agree yet whether the topic exists.
            Conflict: the source refuses; with `compared`, also the target.
        """
        try:
            return await self._read(record, compared=compared)
        except Conflict as exc:
            if knows_no_topic(exc):
                raise SourceUnreachable(f"topic {record.source_topic} is not there, or not yet: {exc}") from exc
            raise

    async def _read(self, record: MirrorRecord, *, compared: bool) -> FailbackDestination:
        link = self._records.link(record.link)
        access = await self._sources.reach(link)
        name = record.source_topic
        with source_errors(record.link):
            async with asyncio.timeout(_READ_S):
                topic = (await access.topics([name])).get(name)
        if topic is None:
            return FailbackDestination(present=False)
        found = (await self._ends.read(link, {name: topic.partitions}, _READ_S))[name]
        log_end_offsets = found.log_ends if found.log_ends is not None else found.high_watermarks
        source = FailbackDestination(
            topic_id=topic.topic_id,
            ends=found.high_watermarks,
            log_end_offsets=log_end_offsets,
            ours=(False,) * len(log_end_offsets),
        )
        try:
            beyond = records_after_cutover(record, source)
        except WrongLength as exc:
            raise Conflict(str(exc)) from exc
        ours = list(source.ours)
        back = mirror_producer_id(link.link_id, record.mirror_id, record.failback.epoch, reverse=True)
        with source_errors(record.link):
            async with asyncio.timeout(_READ_S):
                for partition in beyond:
                    ours[partition] = await access.last_writer(name, partition, log_end_offsets[partition]) == back
        return replace(
            source, ours=tuple(ours), unlike=await self._unlike(record, access, log_end_offsets) if compared else None
        )

    async def _unlike(
        self, record: MirrorRecord, source: ClusterAccess, log_end_offsets: Sequence[int]
    ) -> tuple[int, ...]:
        """The partitions whose last batch before the cutover differs. Deleted batches cannot be compared."""
        translates = record.mode is MirrorMode.TRANSLATE
        maps = await self._maps.read(record) if translates and record.cutover.stopped_at else ()
        slots = asyncio.Semaphore(_AT_ONCE)

        async def is_unlike(partition: int, copy_end: int) -> bool:
            async with slots:
                with target_errors():
                    copy = await self._target.batches(record.mirror_topic, partition, copy_end - 1, copy_end - 1)
                if copy is None or (translates and copy.base < _began_at(record, partition)):
                    return False
                copied_from = _on_source(maps[partition], copy) if translates else (copy.base, copy.last)
                if copied_from is None:  # padding: the map begins after it, and nothing was copied
                    return False
                with source_errors(record.link):
                    found = await source.batches(record.source_topic, partition, *copied_from)
            return found is not None and not are_alike(found, copy, copied_from, as_bytes=not translates)

        try:
            stopped_at, copy_ends = stopped(record) or ((), ())
        except WrongLength as exc:
            raise Conflict(str(exc)) from exc
        pairs = zip(
            copy_ends, stopped_at, log_end_offsets, strict=False
        )  # partitions that were added since have no cutover
        asked = [partition for partition, (end, stopped, top) in enumerate(pairs) if end > 0 and top >= stopped]
        with source_errors(record.link):
            async with asyncio.timeout(_COMPARE_S):
                found = await asyncio.gather(*(is_unlike(partition, copy_ends[partition]) for partition in asked))
        return tuple(partition for partition, differs in zip(asked, found, strict=True) if differs)


def _began_at(record: MirrorRecord, partition: int) -> int:
    """Below this offset the copy was not written by the mirror that has stopped."""
    found = handed_over(record)
    return 0 if found is None else found[0][partition]


def _on_source(found: OffsetMap, copy: LastBatch) -> tuple[int, int] | None:
    """The source offsets of a batch on the copy; None where this mirror's map does not have them."""
    base, last = found.to_source(copy.base), found.to_source(copy.last)
    return (base.offset, last.offset) if base.rule is last.rule is TranslationRule.EXACT else None
