"""Is the record at a translated offset the one at the source offset? A sample of them is read on both sides."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gateway.jobs.kafka import Loop
from gateway.jobs.source.ranges import OffsetRange
from gateway.jobs.source.records import chunk_records
from gateway.kafka.cluster import Cluster
from gateway.kafka.logs.range_reader import RangeReader
from gateway.kafka.offsets import EARLIEST, LATEST, list_offsets
from gateway.kafka.topic_partition import TopicPartition
from protocol.batch.record_reader import Record

SAMPLE: Final = 32
"""Offsets of one run that are read."""

_FETCH_BYTES: Final = 64 * 1024
_PATIENCE_S: Final = 15.0
_AT_ONCE: Final = 8
_COMPARED: Final = ("key", "value", "timestamp_ms", "headers")


class SampledOffset(NamedTuple):
    """An offset on both clusters, under the topic's name on each."""

    source_topic: str
    target_topic: str
    partition: int
    source_offset: int
    target_offset: int


def sample(places: Sequence[SampledOffset], seed: int = 0) -> list[SampledOffset]:
    """Some of them, no two of one partition before every partition has had one. Pure."""
    chosen = list(dict.fromkeys(places))
    random.Random(seed).shuffle(chosen)  # noqa: S311 - which ones does not matter
    seen: dict[TopicPartition, int] = {}
    turns = []
    for place in chosen:
        key = place.source_topic, place.partition
        seen[key] = seen.get(key, 0) + 1
        turns.append(seen[key])
    return [place for _, place in sorted(zip(turns, chosen, strict=True), key=lambda one: one[0])][:SAMPLE]


def difference(place: SampledOffset, here: Record | None, there: Record | None) -> str:
    """Why the next record of a group would be another one on the target; '' where it is the same. Pure.

    Nothing is said where a side has no record at the very offset: it was deleted or compacted away there, which the
    other side need not have done yet; or both are at their ends.
    """
    if here is None or there is None or (here.offset, there.offset) != (place.source_offset, place.target_offset):
        return ""
    names = [name for name in _COMPARED if getattr(here, name) != getattr(there, name)]
    if not names:
        return ""
    return (
        f"{place.source_topic}-{place.partition}: the record at source offset {here.offset} is not the one at target "
        f"offset {there.offset} ({', '.join(names)} differ)"
    )


def differences(source: Mapping[str, str], target: Mapping[str, str], places: Sequence[SampledOffset]) -> list[str]:
    """One line for each place of the sample where the records differ. Raises NetError: a cluster does not answer."""
    with Loop() as loop:
        here, there = loop.connect(source), loop.connect(target)
        return loop.run(_differences(here, there, sample(places)))


async def _differences(source: Cluster, target: Cluster, places: Sequence[SampledOffset]) -> list[str]:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def compare(place: SampledOffset) -> str:
        async with slots:
            here = await record_at(source, place.source_topic, place.partition, place.source_offset)
            there = await record_at(target, place.target_topic, place.partition, place.target_offset)
        return difference(place, here, there)

    return [found for found in await asyncio.gather(*map(compare, places)) if found]


async def record_at(cluster: Cluster, topic: str, partition: int, offset: int) -> Record | None:
    """The record that a group which stands at an offset reads next; None when there is none, or it is gone."""
    wanted = {topic: {partition: LATEST}}
    end = (await list_offsets(cluster, wanted, read_committed=True))[topic, partition].offset
    start = (await list_offsets(cluster, {topic: {partition: EARLIEST}}))[topic, partition].offset
    if not start <= offset < end:
        return None
    reader = RangeReader(
        cluster, topic, partition, offset, end, with_last=True, fetch_bytes=_FETCH_BYTES, patience_s=_PATIENCE_S
    )
    while (chunk := await reader.next()) is not None:
        found = next(chunk_records(chunk, OffsetRange(topic, partition, offset, end), read_committed=True), None)
        if found is not None:
            return found[1]
    return None
