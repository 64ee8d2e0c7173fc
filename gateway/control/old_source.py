"""The topic on a link's source that was mirrored once, as the ways back need to know it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from gateway.control.access import ClusterAccess
from gateway.control.context import ControlContext, source_errors, target_errors
from gateway.control.errors import Conflict
from gateway.control.source_ends import SourceEnds
from gateway.domain.last_batch import LastBatch, are_alike
from gateway.domain.offset_map import OffsetMap, Rule
from gateway.domain.per_partition import WrongLength
from gateway.domain.producer_ids import mirror_producer_id
from gateway.domain.records import MirrorMode, MirrorRecord
from gateway.domain.way_back import late_records
from gateway.domain.way_back_snapshot import OldSource

_READ_S = 10.0
_COMPARE_S = 30.0
_AT_ONCE = 16


async def read_old_source(
    context: ControlContext, ends: SourceEnds, record: MirrorRecord, *, compared: bool = False
) -> OldSource:
    """The topic as it is now, with who wrote what it holds beyond the flip.

    Args:
        compared: with the target's last batch before the flip, too.

    Raises:
        SourceUnreachable, Conflict: the source does not answer, or refuses; so for the target, when it is compared.
    """
    link = context.link(record.link)
    access = await context.sources.reach(link)
    name = record.source_topic
    with source_errors(record.link):
        async with asyncio.timeout(_READ_S):
            topic = (await access.topics([name])).get(name)
    if topic is None:
        return OldSource(present=False)
    found = (await ends.read(link, {name: topic.partitions}, _READ_S))[name]
    tops = found.log_ends if found.log_ends is not None else found.high_watermarks
    source = OldSource(topic_id=topic.topic_id, ends=found.high_watermarks, tops=tops, ours=(False,) * len(tops))
    try:
        beyond = late_records(record, source)
    except WrongLength as exc:
        raise Conflict(str(exc)) from exc
    ours = list(source.ours)
    back = mirror_producer_id(link.link_id, record.mirror_id, record.generation, reverse=True)
    with source_errors(record.link):
        async with asyncio.timeout(_READ_S):
            for partition in beyond:
                ours[partition] = await access.last_writer(name, partition, tops[partition]) == back
    return replace(source, ours=tuple(ours), unlike=await _unlike(context, record, access, tops) if compared else ())


async def _unlike(
    context: ControlContext, record: MirrorRecord, source: ClusterAccess, tops: Sequence[int]
) -> tuple[int, ...]:
    """The partitions whose last batch before the flip differs. What is deleted on either side cannot be compared."""
    translates = record.mode is MirrorMode.TRANSLATE
    maps = await context.offset_maps(record) if translates and record.stopped_at else ()
    slots = asyncio.Semaphore(_AT_ONCE)

    async def is_unlike(partition: int, copy_end: int) -> bool:
        async with slots:
            with target_errors():
                copy = await context.target.batch(record.mirror_topic, partition, copy_end - 1)
            if copy is None or (translates and copy.base < _began_at(record, partition)):
                return False
            copied_from = _on_source(maps[partition], copy) if translates else (copy.base, copy.last)
            if copied_from is None:
                return False
            with source_errors(record.link):
                batch = await source.batch(record.source_topic, partition, copied_from[1])
        return batch is not None and not are_alike(batch, copy, copied_from, as_bytes=not translates)

    copy_ends = record.stopped_copy_at or record.stopped_at
    pairs = zip(copy_ends, record.stopped_at, tops, strict=False)
    asked = [partition for partition, (end, stopped, top) in enumerate(pairs) if end > 0 and top >= stopped]
    with source_errors(record.link):
        async with asyncio.timeout(_COMPARE_S):
            found = await asyncio.gather(*(is_unlike(partition, copy_ends[partition]) for partition in asked))
    return tuple(partition for partition, differs in zip(asked, found, strict=True) if differs)


def _began_at(record: MirrorRecord, partition: int) -> int:
    """Below this the copy was written by others than the mirror that has stopped."""
    return record.handed_over_at[partition] if partition < len(record.handed_over_at) else 0


def _on_source(found: OffsetMap, copy: LastBatch) -> tuple[int, int] | None:
    """The offsets on the source of a batch on the copy; None where this mirror's map does not say."""
    base, last = found.to_source(copy.base), found.to_source(copy.last)
    return (base.offset, last.offset) if base.rule is last.rule is Rule.EXACT else None
