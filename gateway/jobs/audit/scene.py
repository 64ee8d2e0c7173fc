"""What an audit compares: settled on once, from what both clusters say when it begins."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from gateway.jobs.audit.pieces import Piece, Side, Span
from gateway.jobs.audit.report import ClusterFacts
from gateway.jobs.audit.slices import Slice, slices
from gateway.jobs.audit.tail import without_data
from gateway.jobs.audit.verdict import Compared
from gateway.jobs.kafka import Loop
from gateway.jobs.offset_map import RANGES, identity_segments, locate
from gateway.jobs.topic_ranges import LogRanges, as_table, log_ranges, wait_for_ends
from gateway.net.cluster import Cluster
from gateway.net.errors import NetError
from gateway.net.log_dirs import log_sizes
from gateway.net.routed import Partition

PositionsOf = Callable[[LogRanges], Mapping[Partition, int]]
_POLL_S: Final = 0.5
BYTES_PER_TASK: Final = 128 * 1024 * 1024
"""Of a log: enough to make a task's start cheap, little enough to show how far the audit is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """What to audit.

    Attributes:
        source, target: Kafka client properties.
        names: topic -> its name on the target; those that are not in it have the same name there.
        segments: makes the offset map (SEGMENTS) from the target's logs; None when offsets are equal on both clusters
            (mode `preserve`).
        positions: of a live mirror with such a map: from the target's log ends how far each partition is, in offsets of
            the source.
        fraction: of the offsets of each partition to compare, above 0 up to 1.
        seed: draws the sample.
        wait_s: how long the target may take to come to the source's end of when the audit began.
    """

    source: Mapping[str, str]
    target: Mapping[str, str]
    topics: Sequence[str]
    names: Mapping[str, str] = field(default_factory=dict)
    segments: Callable[[LogRanges], DataFrame] | None = None
    positions: PositionsOf | None = None
    fraction: float = 1.0
    seed: int = 0
    wait_s: float = 60.0


@dataclass(slots=True)
class Scene:
    """What both clusters said when the audit began. `bytes`: size of the source's logs. `tasks`: that read a piece."""

    source: ClusterFacts
    target: ClusterFacts
    source_ranges: LogRanges
    target_ranges: LogRanges
    bytes: int
    segments: DataFrame
    tasks: int
    compared: list[Compared] = field(default_factory=list)
    pieces: list[dict[Partition, Piece]] = field(default_factory=list)


def prepare(spark: SparkSession, options: AuditOptions) -> Scene:
    """Ask both clusters for their logs, wait for the target, and settle on what to compare."""
    scene = _ask(spark, options)
    bounds, complete = scene.target_ranges, set[Partition]()
    if options.segments is not None:
        scene.segments = options.segments(scene.target_ranges).persist()
        bounds = _map_bounds(scene.segments)
        complete = _readable_ends(options, scene, bounds)
    for key, (start, end) in sorted(scene.source_ranges.items()):
        low, high = bounds.get(key, (end, end if start == end else start))
        high = max(high, end) if key in complete else high
        first = min(max(start, low), end)
        one = Compared(
            topic=key[0],
            partition=key[1],
            source_start=start,
            source_end=end,
            target_start=scene.target_ranges[key][0],
            target_end=scene.target_ranges[key][1],
            start=first,
            end=max(first, min(end, high)),
        )
        scene.compared.append(one)
    cuts = {(one.topic, one.partition): slices(one, options.fraction, options.seed) for one in scene.compared}
    there = None if options.segments is None else _on_target(spark, scene.segments, cuts)
    scene.pieces = _pieces(scene, cuts, there)
    return scene


def _ask(spark: SparkSession, options: AuditOptions) -> Scene:
    with Loop() as loop:
        source, target = loop.connect(options.source), loop.connect(options.target)
        found = loop.run(log_ranges(source, options.topics))
        there = loop.run(log_ranges(target, options.topics, options.names))
        if found.keys() != there.keys():
            topic = min(found.keys() ^ there.keys())[0]
            raise ValueError(f"topic {topic} has another number of partitions on the target")
        ends = {key: end for key, (_, end) in found.items()}
        if options.segments is None:
            there = loop.run(wait_for_ends(target, there, ends, options.wait_s, options.names))
        elif options.positions is not None:
            there = _wait_for_positions(loop, source, target, options, ends, there)
        try:
            sizes = loop.run(log_sizes(source, options.topics))
        except NetError:  # it may not be allowed; only the throughput is not known then
            sizes = {}
        facts = [
            ClusterFacts(cluster.view.cluster_id, properties["bootstrap.servers"], len(cluster.view.brokers))
            for cluster, properties in ((source, options.source), (target, options.target))
        ]
    segments = identity_segments(as_table(spark, there))
    total = sum(sizes.values())
    tasks = max(spark.sparkContext.defaultParallelism, math.ceil(total / BYTES_PER_TASK))
    return Scene(facts[0], facts[1], found, there, total, segments, tasks)


def _wait_for_positions(
    loop: Loop,
    source: Cluster,
    target: Cluster,
    options: AuditOptions,
    ends: Mapping[Partition, int],
    there: LogRanges,
) -> LogRanges:
    """Wait until the mirror has all that the source had, or until the time is up; the target's logs as of then."""
    deadline = time.monotonic() + options.wait_s
    while options.positions is not None:
        positions = options.positions(there)
        left = {key: (positions.get(key, end), end) for key, end in ends.items()}
        if len(loop.run(without_data(source, left))) == len(left) or time.monotonic() >= deadline:
            break
        loop.run(asyncio.sleep(_POLL_S))
        there = loop.run(log_ranges(target, options.topics, options.names))
    return there


def _readable_ends(options: AuditOptions, scene: Scene, bounds: Mapping[Partition, tuple[int, int]]) -> set[Partition]:
    """Partitions whose source has no record behind the end of the map: nothing is missing there."""
    spans = {key: (bounds.get(key, (start, start))[1], end) for key, (start, end) in scene.source_ranges.items()}
    with Loop() as loop:
        return loop.run(without_data(loop.connect(options.source), spans))


def _map_bounds(segments: DataFrame) -> dict[Partition, tuple[int, int]]:
    """The first source offset of the map, and the one after its last, of each partition."""
    ends = F.max(F.col("source_base") + F.col("count")).alias("high")
    rows = segments.groupBy("topic", "partition").agg(F.min("source_base").alias("low"), ends).collect()
    return {key_of(row): (row.low, row.high) for row in rows}


def _on_target(
    spark: SparkSession, segments: DataFrame, found: Mapping[Partition, list[Slice]]
) -> dict[tuple[Partition, int], int]:
    """The borders of all slices, through the map."""
    rows = {(*key, at, at) for key, cuts in found.items() for low_high in cuts for at in low_high}
    located = locate(spark.createDataFrame(sorted(rows), RANGES), "log_start", segments)
    known = located.where(F.col("target_offset").isNotNull()).collect()
    return {(key_of(row), row.log_start): row.target_offset for row in known}


def _pieces(
    scene: Scene, found: Mapping[Partition, list[Slice]], there: Mapping[tuple[Partition, int], int] | None
) -> list[dict[Partition, Piece]]:
    """The slices on both sides: piece n of every partition that has so many, for each n.

    Args:
        there: (partition, source offset) -> target offset; None where they are the same.
    """
    return [
        {
            key: Piece(
                Side(Span(*cuts[number]), scene.source_ranges[key][1], number == len(cuts) - 1),
                Side(
                    Span(*(at if there is None else there[key, at] for at in cuts[number])),
                    scene.target_ranges[key][1],
                    number == len(cuts) - 1,
                ),
            )
            for key, cuts in found.items()
            if number < len(cuts)
        }
        for number in range(max((len(cuts) for cuts in found.values()), default=0))
    ]


def key_of(row: Row) -> Partition:
    """The partition of a row."""
    return row.topic, row.partition
