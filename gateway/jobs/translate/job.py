"""translate-offsets from end to end: offsets in, through the map, a report out, and on the target if asked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gateway.jobs.kafka import as_options, ask
from gateway.jobs.offset_map import identity_segments
from gateway.jobs.schemas import RECORDS, columns
from gateway.jobs.spark_progress import Tell, described, told_of_tasks
from gateway.jobs.topic_ranges import LogRanges, as_table, log_ranges
from gateway.jobs.translate import mm2
from gateway.jobs.translate.apply import clamp, summary, translate
from gateway.jobs.translate.by_link import ByLink
from gateway.jobs.translate.commit import PLAIN, TASKS_PER_CORE, CommitTerms, commit
from gateway.jobs.translate.commit_plan import Outcome
from gateway.version import VERSION

FORMAT = "lockgate-translate/1"
Say = Callable[[str], None]
LookAgain = Callable[[CommitTerms], tuple[CommitTerms, list[str]]]
_TASKS_OF_A_SORT = 3
"""Of each core, about: reading, sorting, summing up."""
GROUPS_AT_ONCE = 200
"""Of which the gateway is asked together, right before they are committed: a second or two of work."""
_PROBLEMS = 1000
_BAD = (Outcome.REFUSED, Outcome.FAILED, Outcome.NOT_MIRRORED, Outcome.NOT_EXACT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What became of a run. `report`: JSON. `failed`: an offset is not exact, or is not on the target as asked for."""

    report: dict[str, Any]
    failed: bool


def target_ranges(properties: Mapping[str, str], topics: Collection[str], names: Mapping[str, str] = {}) -> LogRanges:
    """Logs of those topics that the target has, where a topic may have another name (`names`)."""

    async def of_known(cluster: Any) -> LogRanges:
        here = {topic: names.get(topic, topic) for topic in topics}
        view = await cluster.refresh(tuple(here.values()))
        return await log_ranges(cluster, [topic for topic, name in here.items() if name in view.topics], names)

    return ask(properties, of_known)


def topics_of(offsets: DataFrame) -> list[str]:
    """The topics named in a table, in order."""
    return sorted(row.topic for row in offsets.select("topic").distinct().collect())


def translate_groups(
    spark: SparkSession,
    offsets: DataFrame,
    target: Mapping[str, str],
    segments: Callable[[LogRanges], DataFrame] | None,
    *,
    by_link: ByLink | None = None,
    names: Mapping[str, str] = {},
    group_prefix: str = "",
) -> DataFrame:
    """OFFSETS -> TRANSLATED, inside the target's logs and with the names of the target.

    Args:
        segments: makes the offset map (SEGMENTS) from the target's logs; without it offsets are equal on both clusters.
        by_link: goes before `segments`.
        names: topic -> its name on the target, if another.
        group_prefix: what groups' names begin with on the target.
    """
    logs = target_ranges(target, topics_of(offsets), names)
    ranges = as_table(spark, logs)
    found = clamp(through(offsets, logs, ranges, segments, by_link), ranges)
    if any(topic != name for topic, name in names.items()):
        table = F.create_map(*(F.lit(text) for pair in names.items() for text in pair))
        found = found.withColumn("topic", F.coalesce(table[F.col("topic")], "topic"))
    return found.withColumn("group", F.concat(F.lit(group_prefix), "group")) if group_prefix else found


def through(
    offsets: DataFrame,
    logs: LogRanges,
    ranges: DataFrame,
    segments: Callable[[LogRanges], DataFrame] | None,
    by_link: ByLink | None,
) -> DataFrame:
    """OFFSETS -> TRANSLATED by the link's own maps, else by segments, else with equal offsets. `ranges`: `logs`."""
    if by_link is not None:
        return by_link(offsets, logs)
    return translate(offsets, identity_segments(ranges) if segments is None else segments(logs))


def translate_mm2(
    spark: SparkSession,
    target: Mapping[str, str],
    *,
    checkpoints_topic: str,
    syncs_topic: str,
    syncs_cluster: Mapping[str, str],
    prefix: str,
    written_once: bool = False,
) -> DataFrame:
    """MirrorMaker 2's own topics -> TRANSLATED, inside the target's logs.

    Args:
        checkpoints_topic: on the target.
        syncs_topic: on `syncs_cluster`, where offset-syncs.topic.location says; '' to go by checkpoints alone.
        prefix: what the target's topic names begin with, as DefaultReplicationPolicy makes them; '' for none.
    """
    marks = mm2.checkpoints(_records(spark, target, checkpoints_topic))
    if syncs_topic:
        syncs = mm2.offset_syncs(_records(spark, syncs_cluster, syncs_topic))
    else:
        syncs = spark.createDataFrame([], mm2.SYNCS)
    found = mm2.translate_checkpoints(marks, syncs, prefix=prefix, written_once=written_once)
    return clamp(found, as_table(spark, target_ranges(target, topics_of(found))))


def _records(spark: SparkSession, properties: Mapping[str, str], topic: str) -> DataFrame:
    schema = columns(RECORDS, "key", "value", "offset", "timestamp")
    options = {**as_options(properties), "subscribe": topic}
    return spark.read.format("kafka-records").schema(schema).options(**options).load()


def run(
    spark: SparkSession,
    translated: DataFrame,
    target: Mapping[str, str],
    *,
    write: bool,
    terms: CommitTerms = PLAIN,
    read_back: Callable[[DataFrame], list[str]] = lambda _: [],
    look_again: LookAgain = lambda terms: (terms, []),
    say: Say = lambda _: None,
    tell: Tell = lambda _: None,
) -> Outcomes:
    """Report on TRANSLATED, and commit it if `write`, on these terms.

    Args:
        read_back: tells of offsets at which the two clusters have different records; then nothing is committed.
        look_again: asked right before each `GROUPS_AT_ONCE` groups are committed: the terms as they are by then, and
            what has changed of the mirrors since the translation; then nothing is committed any more.
        say: gets a line now and then.
        tell: how far it is.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    translated = translated.persist()
    try:
        slots = spark.sparkContext.defaultParallelism
        with (
            described(spark, "lockgate translate-offsets: translation"),
            told_of_tasks(spark, _TASKS_OF_A_SORT * slots, 0, tell),
        ):
            groups = [row.asDict() for row in summary(translated).collect()]
        say(f"{sum(group['partitions'] for group in groups)} offsets of {len(groups)} groups translated")
        report: dict[str, Any] = {
            "format": FORMAT,
            "started": started.isoformat(timespec="milliseconds"),
            "committed": write,
            "groups": groups,
            "groups_exact": sum(group["partitions"] == group["exact"] for group in groups),
            "not_exact": [row.asDict() for row in translated.where(~F.col("exact")).limit(1000).collect()],
            "versions": {"lockgate": VERSION, "spark": spark.version},
        }
        with (
            described(spark, "lockgate translate-offsets: samples of both clusters, commit"),
            told_of_tasks(spark, TASKS_PER_CORE * slots, 0, tell),
        ):
            report["other_records"] = read_back(translated)
            report.update(committed=False, changed=[])
            write = write and not report["other_records"]
            asked = _CommitTermsQuery(terms, look_again)
            names = sorted(group["group"] for group in groups)
            failed = _commit(spark, translated, target, names, asked, report) if write else False
    finally:
        translated.unpersist()
    report["seconds"] = round(time.monotonic() - clock, 3)
    failed = failed or bool(report["other_records"] or report["changed"])
    return Outcomes(report=report, failed=failed or (bool(report["not_exact"]) and not terms.inexact))


class _CommitTermsQuery:
    """The terms of a commit, asked for again and again."""

    def __init__(self, terms: CommitTerms, look_again: LookAgain) -> None:
        self._terms, self._look_again = terms, look_again

    def now(self) -> tuple[CommitTerms, list[str]]:
        """The terms, and what has changed of the mirrors."""
        self._terms, changed = self._look_again(self._terms)
        return self._terms, changed


def _commit(
    spark: SparkSession,
    translated: DataFrame,
    target: Mapping[str, str],
    groups: Sequence[str],
    asked: _CommitTermsQuery,
    report: dict[str, Any],
) -> bool:
    """Commit some groups after the others, note the outcomes in the report; True when something is not as asked for.

    All at once they take minutes, in which a group may be promoted, or its mirror change.
    """
    counts, problems = Counter[str](), list[dict[str, Any]]()
    for start in range(0, len(groups), GROUPS_AT_ONCE):
        terms, report["changed"] = asked.now()
        if report["changed"]:
            break
        report["committed"] = True
        some = translated.where(F.col("group").isin(list(groups[start : start + GROUPS_AT_ONCE])))
        outcomes = commit(spark, target, some, terms).persist()
        try:
            counts.update({row.outcome: row["count"] for row in outcomes.groupBy("outcome").count().collect()})
            bad = outcomes.where(F.col("outcome").isin(*_BAD)).orderBy("group", "topic", "partition")
            problems += [row.asDict() for row in bad.limit(_PROBLEMS - len(problems)).collect()]
        finally:
            outcomes.unpersist()
    report.update(outcomes=dict(counts), problems=problems)
    return any(name in counts for name in _BAD)
