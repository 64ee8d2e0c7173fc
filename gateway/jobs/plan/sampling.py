"""Looks at some record batches of a topic: at the start, in the middle and at the end of some partitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Final

from gateway.jobs.plan.facts import BatchSample
from gateway.jobs.topic_ranges import LogRanges
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import NetError
from gateway.kafka.logs.range_reader import RangeReader
from gateway.kafka.topic_partition import TopicPartition
from protocol.batch.header import BatchHeader, OldFormat

PARTITIONS: Final = 4
"""Of each topic that are looked at."""

_FETCH_BYTES: Final = 256 * 1024
_PATIENCE_S: Final = 10.0
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_AT_ONCE: Final = 16
_ENOUGH_BYTES: Final = 16 * 1024 * 1024


def sample_of(headers: Iterable[BatchHeader]) -> BatchSample:
    """What batches are like by their headers."""
    found = list(headers)
    return BatchSample(
        batches=len(found),
        records=sum(header.count for header in found),
        bytes=sum(header.size for header in found),
        transactional=sum(header.is_transactional for header in found),
        control=sum(header.is_control for header in found),
        with_gaps=sum(not header.is_dense for header in found),
        idempotent=sum(header.producer_id >= 0 for header in found),
        codecs=frozenset(_CODECS[header.codec] for header in found if header.codec < len(_CODECS)),
    )


def places(ranges: LogRanges) -> list[tuple[TopicPartition, int]]:
    """Where to look: (partition, offset), a few for each topic."""
    by_topic: dict[str, list[TopicPartition]] = {}
    for key, (start, end) in ranges.items():
        if start < end:
            by_topic.setdefault(key[0], []).append(key)
    found: list[tuple[TopicPartition, int]] = []
    for keys in by_topic.values():
        step = max(1, len(keys) // PARTITIONS)
        for key in sorted(keys)[::step][:PARTITIONS]:
            start, end = ranges[key]
            found.extend((key, at) for at in sorted({start, (start + end) // 2, end - 1}))
    return found


async def sample_topics(cluster: Cluster, ranges: LogRanges) -> Mapping[str, BatchSample]:
    """What the batches of each topic are like. The sample of one that could not be read says why."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def look(key: TopicPartition, at: int) -> tuple[str, BatchSample]:
        async with slots:
            reader = RangeReader(cluster, *key, at, ranges[key][1], fetch_bytes=_FETCH_BYTES, patience_s=_PATIENCE_S)
            try:
                chunk = await reader.next()
            except OldFormat:
                return key[0], BatchSample(old_format=1)
            except NetError as exc:
                return key[0], BatchSample(unread=str(exc))
            return key[0], sample_of(chunk.headers if chunk else ())

    samples: dict[str, BatchSample] = {}
    for topic, sample in await asyncio.gather(*(look(key, at) for key, at in places(ranges))):
        samples[topic] = samples.get(topic, BatchSample()) + sample
    return samples


async def read_rate(cluster: Cluster, ranges: LogRanges, seconds: float) -> float:
    """Bytes a second that one reader gets from the longest log, tried for some seconds.

    0 when it cannot be read, or when there is too little of it to tell.
    """
    longest = max(ranges, key=lambda key: ranges[key][1] - ranges[key][0], default=None)
    if longest is None or seconds <= 0:
        return 0.0
    reader = RangeReader(cluster, *longest, *ranges[longest], patience_s=_PATIENCE_S)
    began, total = time.monotonic(), 0
    try:
        while time.monotonic() - began < seconds and (chunk := await reader.next()) is not None:
            total += len(chunk.records)
    except (NetError, OldFormat):
        return 0.0
    return total / max(1e-6, time.monotonic() - began) if total >= _ENOUGH_BYTES else 0.0
