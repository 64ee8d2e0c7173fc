"""The audit from end to end: offsets at start, batches by digest, records where needed, verdicts, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from gateway.jobs.audit.batches import by_partition, spans_to_decode
from gateway.jobs.audit.compare import Comparison, readers
from gateway.jobs.audit.evidence import divergence
from gateway.jobs.audit.pieces import Side, Span
from gateway.jobs.audit.reading import read_records
from gateway.jobs.audit.records import count_records, first_divergences, pair_records
from gateway.jobs.audit.report import Report
from gateway.jobs.audit.scene import AuditOptions, Scene, key_of, prepare
from gateway.jobs.audit.verdict import Compared, Counts, judge
from gateway.jobs.spark_progress import Tell, told_of_tasks
from gateway.net.routed import Partition

Say = Callable[[str], None]


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
    comparison = Comparison(spark, options, scene, say)
    try:
        tasks = 2 * len(scene.pieces) * max(scene.tasks, len(scene.compared))
        with told_of_tasks(spark, tasks, scene.bytes, tell):
            blocks = comparison.blocks()
            counts = {key_of(row): row for row in by_partition(blocks).collect()}
        batches_s = time.monotonic() - clock
        spans = {key_of(row): row for row in spans_to_decode(blocks).collect()}
        if spans:
            say(f"{len(spans)} partition(s) have batches that are not equal: comparing their records")
        decoded, divergences = _decode(spark, options, scene, spans)
    finally:
        comparison.close()
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


def _decode(
    spark: SparkSession, options: AuditOptions, scene: Scene, spans: Mapping[Partition, Row]
) -> tuple[dict[Partition, Row], dict[Partition, dict[str, Any]]]:
    """Compare the records of the spans: counts, and the first divergence, of each partition."""
    if not spans:
        return {}, {}
    pairs = _pairs(spark, options, scene, spans).persist()
    try:
        counts = {key_of(row): row for row in count_records(pairs).collect()}
        first = {key_of(row): divergence(row) for row in first_divergences(pairs).collect()}
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
        here, there = readers(spark, options, scene)
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
