"""Which offsets of which partitions: the ranges that tasks read.

A task reads a range as chunks of batches, one after the other, on its own event loop (`read_chunks`).
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from gateway.jobs.kafka import Loop
from gateway.jobs.source.options import Position, SourceOptions, Times
from gateway.kafka.cluster import Cluster
from gateway.kafka.logs.range_reader import BatchChunk, RangeReader
from gateway.kafka.offsets import EARLIEST, LATEST, list_offsets
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.partition.rules.throttle import Throttle

Offsets = dict[TopicPartition, int]

_INTERNAL: Final = "__"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffsetRange(InputPartition):
    """Offsets `start` to `end` - 1 of one partition: what one task reads, in order."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets."""
        return self.end - self.start


async def find_partitions(cluster: Cluster, options: SourceOptions) -> list[TopicPartition]:
    """The partitions that the options name.

    Raises:
        ValueError: a topic or a partition that the cluster does not have.
    """
    view = await cluster.refresh(None if options.pattern else options.topics)
    if options.pattern:
        pattern = re.compile(options.pattern)
        topics = [name for name in view.topics if pattern.fullmatch(name) and not name.startswith(_INTERNAL)]
    else:
        topics = list(options.topics)
    found: list[TopicPartition] = []
    for topic in sorted(topics):
        known = view.topics.get(topic)
        if known is None or not known.partitions:
            raise ValueError(f"the cluster has no topic {topic}, or none that may be read")
        chosen = options.assigned.get(topic, tuple(sorted(known.partitions)))
        missing = [index for index in chosen if index not in known.partitions]
        if missing:
            raise ValueError(f"assign: topic {topic} has no partition {missing[0]}")
        found.extend((topic, index) for index in chosen)
    return found


async def start_offsets(
    cluster: Cluster, options: SourceOptions, partitions: list[TopicPartition], *, stream: bool = False
) -> Offsets:
    """Where reading begins.

    Raises:
        ValueError: no record of a partition is as young as the time that was asked for, and nothing says what then.
    """
    default = Position(LATEST if stream else EARLIEST)
    starts = await _resolve(cluster, options.starting or default, partitions, options.read_committed)
    for times in (options.starting_times, options.starting_time):
        starts |= await _by_time(cluster, times, partitions, or_latest=options.or_latest, options=options)
    return starts


async def end_offsets(cluster: Cluster, options: SourceOptions, partitions: list[TopicPartition]) -> Offsets:
    """Where reading ends: LATEST is the last stable offset, or the high watermark of uncommitted reading."""
    ends = await _resolve(cluster, options.ending, partitions, options.read_committed)
    for times in (options.ending_times, options.ending_time):
        ends |= await _by_time(cluster, times, partitions, or_latest=True, options=options)
    return ends


async def _by_time(
    cluster: Cluster, times: Times | None, partitions: list[TopicPartition], *, or_latest: bool, options: SourceOptions
) -> Offsets:
    """The first records that are as young as asked, of those partitions that a time was given for."""
    wanted = {} if times is None else {key: at for key in partitions if (at := times.of(key)) is not None}
    found = await _ask(cluster, wanted, options.read_committed)
    none = [partition for partition, offset in found.items() if offset < 0]
    if none and not or_latest:
        topic, index = none[0]
        raise ValueError(
            f"{topic}-{index}: no record is as young as {wanted[none[0]]}; to begin at the end then, set "
            "startingOffsetsByTimestampStrategy to latest"
        )
    return found | await _ask(cluster, dict.fromkeys(none, LATEST), options.read_committed)


def clip_to_log_starts(starts: Offsets, ends: Offsets, log_starts: Offsets, *, fail: bool) -> Offsets:
    """The starts, moved to what is still there. Pure.

    Args:
        log_starts: of the logs, as they are.
        fail: that is an error, as by failOnDataLoss.

    Raises:
        ValueError: records between a start and its end are gone, and `fail`; or a log ends before its start.
    """
    found = dict(starts)
    for key, end in ends.items():
        begins = log_starts.get(key, 0)
        if starts[key] >= begins and starts[key] <= end:
            continue
        if fail:
            why = f"its log begins at {begins}" if starts[key] < begins else f"its log ends at {end}"
            raise ValueError(data_lost(f"{key[0]}-{key[1]}: offset {starts[key]} is gone, {why}"))
        _log.warning("%s-%d: offset %d is gone; reading goes on at %d", *key, starts[key], begins)
        found[key] = min(begins, end)
    return found


def data_lost(why: str) -> str:
    """For people."""
    return f"{why}; to go on without what was lost, set failOnDataLoss to false"


async def latest_offsets(cluster: Cluster, options: SourceOptions, partitions: list[TopicPartition]) -> Offsets:
    """The readable ends as of now."""
    return await _ask(cluster, dict.fromkeys(partitions, LATEST), options.read_committed)


async def plan_ranges(cluster: Cluster, options: SourceOptions) -> list[OffsetRange]:
    """The ranges of a batch query, the longest first: a task that starts late should be a short one."""
    partitions = await find_partitions(cluster, options)
    ends = await end_offsets(cluster, options, partitions)
    starts = await start_offsets(cluster, options, partitions)
    if not options.fail_on_data_loss:
        begins = await _ask(cluster, dict.fromkeys(partitions, EARLIEST), options.read_committed)
        starts = clip_to_log_starts(
            starts, {key: max(end, starts[key]) for key, end in ends.items()}, begins, fail=False
        )
    ranges = make_ranges(starts, ends, options.min_partitions, options.max_records_per_partition)
    return sorted(ranges, key=lambda one: one.size, reverse=True)


def make_ranges(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], min_partitions: int, most: int = 0
) -> list[OffsetRange]:
    """One range per partition that has something to read, cut further when there are fewer than `min_partitions`, or
    where one has more than `most` offsets (0 for no limit)."""
    ranges = [
        OffsetRange(topic, index, starts[topic, index], ends[topic, index])
        for topic, index in sorted(ends)
        if starts[topic, index] < ends[topic, index]
    ]
    return split([part for one in ranges for part in cut(one, -(-one.size // most) if most else 1)], min_partitions)


def cut(one: OffsetRange, count: int) -> list[OffsetRange]:
    """A range in so many parts of about the same size."""
    cuts = [one.start + one.size * index // count for index in range(count + 1)]
    return [OffsetRange(one.topic, one.partition, low, high) for low, high in pairwise(cuts)]


def split(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Cut ranges, larger ones into more parts, until there are about as many as asked for."""
    if len(ranges) >= min_partitions:
        return ranges
    total = sum(one.size for one in ranges)
    parts: list[OffsetRange] = []
    for one in ranges:
        parts += cut(one, max(1, min(one.size, round(min_partitions * one.size / total))))
    return parts


async def _resolve(
    cluster: Cluster, position: Position, partitions: list[TopicPartition], read_committed: bool
) -> Offsets:
    wanted = {partition: position.of(partition) for partition in partitions}
    asked = {partition: spec for partition, spec in wanted.items() if spec < 0}
    return wanted | await _ask(cluster, asked, read_committed)


async def _ask(cluster: Cluster, wanted: Mapping[TopicPartition, int], read_committed: bool) -> Offsets:
    if not wanted:
        return {}
    topics: dict[str, dict[int, int]] = {}
    for (topic, index), spec in wanted.items():
        topics.setdefault(topic, {})[index] = spec
    found = await list_offsets(cluster, topics, read_committed=read_committed)
    return {partition: at.offset for partition, at in found.items()}


def read_chunks(
    options: SourceOptions, wanted: OffsetRange, loop: Loop, *, with_last: bool = False
) -> Iterator[BatchChunk]:
    """The batches of a range, also the one across its end if asked for.

    Raises as `RangeReader.next` does, with topic, partition and offset.
    """
    throttle = Throttle(options.throttle_bytes_per_s, time.monotonic())
    reader = RangeReader(
        loop.connect(options.properties),
        wanted.topic,
        wanted.partition,
        wanted.start,
        wanted.end,
        read_committed=options.read_committed,
        with_last=with_last,
        fetch_bytes=throttle.limit(options.fetch_bytes),
    )
    while (chunk := loop.run(reader.next())) is not None:
        yield chunk
        throttle.spend(len(chunk.records))
        wait_s = throttle.wait_s(time.monotonic())
        if wait_s:
            loop.run(asyncio.sleep(wait_s))
