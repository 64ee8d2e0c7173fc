"""The audit from end to end: what is asked, compared piece by piece, keys looked up where need be, verdicts, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from gateway.jobs.audit.pieces import AuditPiece
from gateway.jobs.audit.report import Report
from gateway.jobs.audit.scene import AuditInput, AuditOptions, changed, prepare
from gateway.jobs.audit.schema_ids import IdTranslation
from gateway.jobs.audit.sums import Answer, sum_lines
from gateway.jobs.audit.tasks import run
from gateway.jobs.audit.verdict import PartitionVerdict, gather, judge
from gateway.jobs.audit.work import Work, by_keys, planned_again, works
from gateway.jobs.errors import JobFailed
from gateway.jobs.session import require_same_on_executors
from gateway.jobs.spark_progress import Tell, described, noted, told_of_tasks
from gateway.kafka.topic_partition import TopicPartition

Say = Callable[[str], None]
_TASKS_PER_SLOT = 2


def run_audit(
    spark: SparkSession, options: AuditOptions, say: Say = lambda _: None, tell: Tell = lambda _: None
) -> Report:
    """Compare, and say what was found.

    Args:
        say: gets a line now and then.
        tell: is told about every half second how far it is.

    Raises:
        ValueError: a topic that a cluster does not have; or executors of another version.
        NetError: a cluster does not answer.
    """
    require_same_on_executors(spark)
    started, clock = datetime.now(UTC), time.monotonic()
    scene = prepare(options, say)
    ids = _translations(scene, options)
    slots = spark.sparkContext.defaultParallelism
    planned = scene.pieces(options, _TASKS_PER_SLOT * slots)
    through = {one.topic for one in scene.asked if one.through_ids} - ids.keys()  # not to be compared without the map
    pieces = [piece for key, pieces in planned.items() if key[0] not in through for piece in pieces]
    first = works([piece for piece in pieces if piece.source.size or piece.target.size])
    say(f"comparing {len(scene.asked)} partition(s), about {scene.bytes / 1e6:.0f} MB on the source")
    compared = time.monotonic()
    what = f"lockgate audit: {len(scene.asked)} partition(s) of {len(options.topics)} topic(s)"
    with described(spark, what), told_of_tasks(spark, len(first), scene.bytes, tell):
        answers = _by_partition(run(spark, first, options.source, options.target, ids))
    again = _second_look(scene, planned, answers)
    if again:
        say(f"{len(again)} compacted partition(s) were cleaned differently: comparing the last records of their keys")
        more = [work for parts in again.values() for work in parts]
        with described(spark, f"lockgate audit: keys of {len(again)} compacted partition(s)"):
            answers |= _by_partition(run(spark, more, options.source, options.target, ids))
        planned |= {key: planned_again(parts) for key, parts in again.items()}
    compared_s = time.monotonic() - compared
    findings = _findings(scene, options, planned, answers)
    report = Report(
        source=scene.source,
        target=scene.target,
        topics=tuple(options.topics),
        relation=_relation(options),
        fraction=options.fraction,
        seed=options.seed,
        started=started,
        finished=datetime.now(UTC),
        compared_s=compared_s,
        total_s=time.monotonic() - clock,
        source_bytes=scene.bytes,
        spark_version=spark.version,
        cores=slots,
        findings=findings,
        provenance=options.provenance,
        sources=options.sources,
    )
    noted(spark, "; ".join((f"lockgate audit: {report.verdict}", *sum_lines(report.totals()))))
    return report


def _translations(scene: AuditInput, options: AuditOptions) -> dict[str, IdTranslation]:
    """As `AuditOptions.translations`; none when the gateway does not tell, which is a problem of those topics then."""
    try:
        return options.translations()
    except JobFailed as exc:
        why = f"the link's id map is not known: {exc}"
        scene.asked = [replace(one, problems=(*one.problems, why)) if one.through_ids else one for one in scene.asked]
        return {}


def _by_partition(answers: list[Answer]) -> dict[TopicPartition, list[Answer]]:
    found: dict[TopicPartition, list[Answer]] = {}
    for answer in answers:
        found.setdefault((answer.topic, answer.partition), []).append(answer)
    return found


def _second_look(
    scene: AuditInput,
    planned: Mapping[TopicPartition, list[AuditPiece]],
    answers: Mapping[TopicPartition, list[Answer]],
) -> dict[TopicPartition, list[Work]]:
    found = {}
    for one in scene.asked:
        key = (one.topic, one.partition)
        sums, _ = gather(planned[key], answers.get(key, ()))
        if parts := by_keys(one, sums):
            found[key] = parts
    return found


def _findings(
    scene: AuditInput,
    options: AuditOptions,
    planned: Mapping[TopicPartition, list[AuditPiece]],
    answers: Mapping[TopicPartition, list[Answer]],
) -> tuple[PartitionVerdict, ...]:
    """The verdict on each partition; what has changed since the audit began is among its problems."""
    anew = changed(scene, options)
    found = []
    for one in scene.asked:
        key, problem = (one.topic, one.partition), anew.get(one.topic)
        asked = one if problem is None else replace(one, problems=(*one.problems, problem))
        found.append(judge(asked, planned[key], answers.get(key, ()), scene.began_ms))
    return tuple(found)


def _relation(options: AuditOptions) -> str:
    through = "; schema ids written anew, compared through the link's id map"
    return _offsets(options) + (through if any(one.translates_ids for one in options.records.values()) else "")


def _offsets(options: AuditOptions) -> str:
    if options.given is not None:
        return "through an offset map that was given"
    if any(record.mode == "translate" for record in options.records.values()):
        return "through the link's offset maps"
    return "equal on both clusters"
