"""The audit from end to end: offsets at start, batches by digest, records where needed, verdicts, report."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from gateway.jobs.audit.batches import by_partition, compare_batches, spans_to_decode
from gateway.jobs.audit.evidence import divergence
from gateway.jobs.audit.pieces import Piece, Side, Span
from gateway.jobs.audit.reading import Reader, read_batches, read_records
from gateway.jobs.audit.records import count_records, first_divergences, pair_records
from gateway.jobs.audit.report import ClusterFacts, Report
from gateway.jobs.audit.slices import Slice, slices
from gateway.jobs.audit.verdict import Compared, Counts, Finding, judge
from gateway.jobs.kafka import Loop
from gateway.jobs.offset_map import RANGES, identity_segments, locate
from gateway.jobs.spark_progress import Tell, told_of_tasks
from gateway.jobs.topic_ranges import LogRanges, as_table, log_ranges, wait_for_ends
from gateway.net.errors import NetError
from gateway.net.log_dirs import log_sizes
from gateway.net.routed import Partition

Say = Callable[[str], None]
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
        fraction: of the offsets of each partition to compare, above 0 up to 1.
        seed: draws the sample.
        wait_s: how long the target may take to come to the source's end of when the audit began.
    """

    source: Mapping[str, str]
    target: Mapping[str, str]
    topics: Sequence[str]
    names: Mapping[str, str] = field(default_factory=dict)
    segments: Callable[[LogRanges], DataFrame] | None = None
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


def run_audit(
    spark: SparkSession, options: AuditOptions, say: Say = lambda _: None, tell: Tell = lambda _: None
) -> Report:
    """Compare, and say what was found.

    Args:
        say: gets a line now and then.
        tell: is told about every half second how far it is.

    Raises:
        ValueError: a topic that a cluster does not have, or other partition counts on the two.
        NetError: a cluster does not answer.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    scene = prepare(spark, options)
    say(f"comparing {len(scene.compared)} partition(s), about {scene.bytes / 1e6:.0f} MB on the source")
    blocks = _blocks(spark, options, scene).persist()
    try:
        tasks = 2 * len(scene.pieces) * max(scene.tasks, len(scene.compared))
        with told_of_tasks(spark, tasks, scene.bytes, tell):
            counts = {_key(row): row for row in by_partition(blocks).collect()}
        batches_s = time.monotonic() - clock
        spans = {_key(row): row for row in spans_to_decode(blocks).collect()}
        if spans:
            say(f"{len(spans)} partition(s) have batches that are not equal: comparing their records")
        decoded, divergences = _decode(spark, options, scene, spans)
    finally:
        blocks.unpersist()
    findings = [
        judge(one, _counts(one, counts, decoded), divergences.get((one.topic, one.partition))) for one in scene.compared
    ]
    return Report(
        source=scene.source,
        target=scene.target,
        topics=tuple(options.topics),
        mapped=options.segments is not None,
        fraction=options.fraction,
        seed=options.seed,
        started=started,
        finished=datetime.now(UTC),
        batches_s=batches_s,
        total_s=time.monotonic() - clock,
        source_bytes=scene.bytes,
        spark_version=spark.version,
        cores=spark.sparkContext.defaultParallelism,
        findings=tuple(findings),
    )


def prepare(spark: SparkSession, options: AuditOptions) -> Scene:
    """Ask both clusters for their logs, wait for the target, and settle on what to compare."""
    scene = _ask(spark, options)
    bounds = scene.target_ranges
    if options.segments is not None:
        scene.segments = options.segments(scene.target_ranges).persist()
        bounds = _map_bounds(scene.segments)
    for key, (start, end) in sorted(scene.source_ranges.items()):
        low, high = bounds.get(key, (end, end if start == end else start))
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
        if options.segments is None:
            ends = {key: end for key, (_, end) in found.items()}
            there = loop.run(wait_for_ends(target, there, ends, options.wait_s, options.names))
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


def _map_bounds(segments: DataFrame) -> dict[Partition, tuple[int, int]]:
    """The first source offset of the map, and the one after its last, of each partition."""
    ends = F.max(F.col("source_base") + F.col("count")).alias("high")
    rows = segments.groupBy("topic", "partition").agg(F.min("source_base").alias("low"), ends).collect()
    return {_key(row): (row.low, row.high) for row in rows}


def _on_target(
    spark: SparkSession, segments: DataFrame, found: Mapping[Partition, list[Slice]]
) -> dict[tuple[Partition, int], int]:
    """The borders of all slices, through the map."""
    rows = {(*key, at, at) for key, cuts in found.items() for low_high in cuts for at in low_high}
    located = locate(spark.createDataFrame(sorted(rows), RANGES), "log_start", segments)
    known = located.where(F.col("target_offset").isNotNull()).collect()
    return {(_key(row), row.log_start): row.target_offset for row in known}


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


def _blocks(spark: SparkSession, options: AuditOptions, scene: Scene) -> DataFrame:
    parts = []
    for pieces in scene.pieces or [{}]:
        source = {key: piece.source for key, piece in pieces.items()}
        target = {key: piece.target for key, piece in pieces.items()}
        here, there = _readers(spark, options, scene)
        parts.append(compare_batches(read_batches(here, source), read_batches(there, target), scene.segments))
    return reduce(DataFrame.unionByName, parts)


def _readers(spark: SparkSession, options: AuditOptions, scene: Scene) -> tuple[Reader, Reader]:
    return (
        Reader(spark, options.source, scene.tasks),
        Reader(spark, options.target, scene.tasks, options.names),
    )


def _decode(
    spark: SparkSession, options: AuditOptions, scene: Scene, spans: Mapping[Partition, Row]
) -> tuple[dict[Partition, Row], dict[Partition, dict[str, Any]]]:
    """Compare the records of the spans: counts, and the first divergence, of each partition."""
    if not spans:
        return {}, {}
    pairs = _pairs(spark, options, scene, spans).persist()
    try:
        counts = {_key(row): row for row in count_records(pairs).collect()}
        first = {_key(row): divergence(row) for row in first_divergences(pairs).collect()}
    finally:
        pairs.unpersist()
    return counts, first


def _pairs(spark: SparkSession, options: AuditOptions, scene: Scene, spans: Mapping[Partition, Row]) -> DataFrame:
    whole = options.fraction >= 1
    parts = []
    for pieces in scene.pieces:
        wanted = {key: piece for key, piece in pieces.items() if key in spans}
        source = {
            key: (piece.source, _span(spans[key], "source", piece.source, whole)) for key, piece in wanted.items()
        }
        target = {
            key: (piece.target, _span(spans[key], "target", piece.target, whole)) for key, piece in wanted.items()
        }
        here, there = _readers(spark, options, scene)
        parts.append(pair_records(read_records(here, source), read_records(there, target), scene.segments))
    return reduce(DataFrame.unionByName, parts)


def _span(row: Row, name: str, side: Side, whole: bool) -> Span:
    """What to read of a side: the batches that had no equal, or of a sample each piece from end to end."""
    if not whole:
        return side.with_slack()
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return side.for_records(None if low is None else Span(low, high + 1))


def _counts(one: Compared, counts: Mapping[Partition, Row], decoded: Mapping[Partition, Row]) -> Counts:
    key = (one.topic, one.partition)
    if key not in counts:
        return Counts()
    row, records = counts[key], decoded.get(key)
    return Counts(
        source_batches=row.source_batches,
        target_batches=row.target_batches,
        equal_batches=row.equal_batches,
        source_records=row.source_records,
        target_records=row.target_records,
        decoded=0 if records is None else records.compared,
        different=0 if records is None else records.different,
        source_digest=row.source_digest or "",
        target_digest=row.target_digest or "",
    )


def _key(row: Row) -> Partition:
    return row.topic, row.partition


__all__ = ["AuditOptions", "Finding", "Say", "Scene", "prepare", "run_audit"]
