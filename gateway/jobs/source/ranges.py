"""Which offsets of which partitions: the ranges that tasks read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from gateway.jobs.source.options import Position, SourceOptions
from gateway.net.cluster import Cluster
from gateway.net.offsets import LATEST, list_offsets
from gateway.net.routed import Partition

Offsets = dict[Partition, int]

_INTERNAL: Final = "__"


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


async def find_partitions(cluster: Cluster, options: SourceOptions) -> list[Partition]:
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
    found: list[Partition] = []
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


async def start_offsets(cluster: Cluster, options: SourceOptions, partitions: list[Partition]) -> Offsets:
    """Where reading begins. A timestamp that no record is as young as means the end."""
    if options.starting_timestamp_ms is not None:
        wanted = dict.fromkeys(partitions, options.starting_timestamp_ms)
        found = await _ask(cluster, wanted, options.read_committed)
        young = [partition for partition, offset in found.items() if offset < 0]
        return found | await _ask(cluster, dict.fromkeys(young, LATEST), options.read_committed)
    return await _resolve(cluster, options.starting, partitions, options.read_committed)


async def end_offsets(cluster: Cluster, options: SourceOptions, partitions: list[Partition]) -> Offsets:
    """Where reading ends: LATEST is the last stable offset, or the high watermark of uncommitted reading."""
    return await _resolve(cluster, options.ending, partitions, options.read_committed)


async def latest_offsets(cluster: Cluster, options: SourceOptions, partitions: list[Partition]) -> Offsets:
    """The readable ends as of now."""
    return await _ask(cluster, dict.fromkeys(partitions, LATEST), options.read_committed)


async def plan_ranges(cluster: Cluster, options: SourceOptions) -> list[OffsetRange]:
    """The ranges of a batch query, the longest first: a task that starts late should be a short one."""
    partitions = await find_partitions(cluster, options)
    starts = await start_offsets(cluster, options, partitions)
    ends = await end_offsets(cluster, options, partitions)
    return sorted(make_ranges(starts, ends, options.min_partitions), key=lambda one: one.size, reverse=True)


def make_ranges(
    starts: Mapping[Partition, int], ends: Mapping[Partition, int], min_partitions: int
) -> list[OffsetRange]:
    """One range per partition that has something to read, cut further when there are fewer than `min_partitions`."""
    ranges = [
        OffsetRange(topic, index, starts[topic, index], ends[topic, index])
        for topic, index in sorted(ends)
        if starts[topic, index] < ends[topic, index]
    ]
    return split(ranges, min_partitions)


def split(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Cut ranges, larger ones into more parts, until there are about as many as asked for."""
    if len(ranges) >= min_partitions:
        return ranges
    total = sum(one.size for one in ranges)
    parts: list[OffsetRange] = []
    for one in ranges:
        count = max(1, min(one.size, round(min_partitions * one.size / total)))
        cuts = [one.start + one.size * index // count for index in range(count + 1)]
        parts.extend(OffsetRange(one.topic, one.partition, low, high) for low, high in pairwise(cuts))
    return parts


async def _resolve(cluster: Cluster, position: Position, partitions: list[Partition], read_committed: bool) -> Offsets:
    wanted = {partition: position.of(partition) for partition in partitions}
    asked = {partition: spec for partition, spec in wanted.items() if spec < 0}
    return wanted | await _ask(cluster, asked, read_committed)


async def _ask(cluster: Cluster, wanted: Mapping[Partition, int], read_committed: bool) -> Offsets:
    if not wanted:
        return {}
    topics: dict[str, dict[int, int]] = {}
    for (topic, index), spec in wanted.items():
        topics.setdefault(topic, {})[index] = spec
    found = await list_offsets(cluster, topics, read_committed=read_committed)
    return {partition: at.offset for partition, at in found.items()}
