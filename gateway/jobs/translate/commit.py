"""Writes translated offsets to the target, by the executors: one group after the other, read back each time.

A group is written only while it has no members there, and never back to a lower offset. So a task that is tried again,
or runs twice, finds its own work and leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from gateway.jobs.kafka import Loop
from gateway.jobs.translate.commit_plan import NOTHING, DesiredCommit, Outcome, outcome, to_commit, withheld
from gateway.jobs.translate.schemas import COMMITS
from gateway.kafka.cluster import Cluster
from gateway.kafka.commits import commit_offsets, committed_offsets
from gateway.kafka.connection.errors import NetError, PartitionErrors
from gateway.kafka.groups import DEAD, EMPTY, describe_group
from gateway.kafka.topic_partition import TopicPartition
from protocol.errors import error_name

TIMEOUT_S: Final = 60.0
TASKS_PER_CORE: Final = 2

CommitRow = tuple[str, str, int, int | None, int, int, str, str]


class CommitTerms(NamedTuple):
    """Of a commit. `promoted`: groups that read on the target; `inexact`: commit offsets that are not exact too."""

    promoted: frozenset[str] = frozenset()
    inexact: bool = False


PLAIN: Final = CommitTerms()
_OF_WANTED: Final = ("target_offset", "note", "exact", "why")
_PROMOTED: Final = "the gateway has promoted the group: it reads on the target"


def commit(
    spark: SparkSession, properties: Mapping[str, str], translated: DataFrame, terms: CommitTerms = PLAIN
) -> DataFrame:
    """Commit TRANSLATED on the target -> COMMITS. Lazy as every DataFrame; a second run of it changes nothing."""
    tasks = TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    rows = (
        translated.select(
            "group",
            "topic",
            "partition",
            "target_offset",
            F.coalesce("metadata", F.lit("")).alias("note"),
            "exact",
            F.when(F.col("why") != "", F.col("why")).otherwise(F.col("rule")).alias("why"),
        )
        .repartition(tasks, "group")
        .sortWithinPartitions("group")
    )
    return spark.createDataFrame(rows.rdd.mapPartitions(_writer(dict(properties), terms)), COMMITS)


def _writer(properties: Mapping[str, str], terms: CommitTerms) -> Callable[[Iterable[Row]], Iterator[CommitRow]]:
    def write(rows: Iterable[Row]) -> Iterator[CommitRow]:
        with Loop() as loop:
            cluster: Cluster | None = None
            for group, of_group in groupby(rows, key=lambda row: str(row["group"])):
                cluster = cluster or loop.connect(properties)
                wanted = {
                    (row["topic"], row["partition"]): DesiredCommit(*(row[name] for name in _OF_WANTED))
                    for row in of_group
                }
                yield from loop.run(commit_group(cluster, group, wanted, terms))

    return write


async def commit_group(
    cluster: Cluster, group: str, wanted: Mapping[TopicPartition, DesiredCommit], terms: CommitTerms = PLAIN
) -> list[CommitRow]:
    """Commit one group's offsets and read them back. What went wrong is in the rows, not raised."""
    before: dict[TopicPartition, int] = {}
    try:
        before = await _held(cluster, group)
        held_back = withheld(wanted, inexact=terms.inexact)
        if held_back is not None:
            return [_row(group, key, wanted[key], before, before, *why) for key, why in held_back.items()]
        why = _PROMOTED if group in terms.promoted else await _members(cluster, group)
        if why:
            return _refused(group, wanted, before, why)
        said = await _write(cluster, group, to_commit(wanted, before))
        after = await _held(cluster, group)
    except NetError as exc:
        return [_row(group, key, value, before, before, Outcome.FAILED, str(exc)) for key, value in wanted.items()]
    return [
        _row(
            group,
            key,
            value,
            before,
            after,
            outcome(value, before.get(key, NOTHING), after.get(key, NOTHING)),
            said.get(key, ""),
        )
        for key, value in wanted.items()
    ]


async def _members(cluster: Cluster, group: str) -> str:
    """Why the group cannot be written to: its members, or ''."""
    found = await describe_group(cluster, group, timeout_s=TIMEOUT_S)
    if found.state in (DEAD, EMPTY) and not found.members:
        return ""
    names = sorted({f"{member.client_id} ({member.host})" for member in found.members})
    return f"the group is {found.state} on the target: {', '.join(names) or 'no members yet'}"


async def _held(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    found = await committed_offsets(cluster, group, timeout_s=TIMEOUT_S)
    return {key: value.offset for key, value in found.items()}


async def _write(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]
) -> dict[TopicPartition, str]:
    """Commit; why not, of partitions that were refused."""
    try:
        await commit_offsets(cluster, group, offsets, timeout_s=TIMEOUT_S)
    except PartitionErrors as exc:
        return {key: error_name(code) for key, code in exc.errors.items()}
    return {}


def _refused(
    group: str, wanted: Mapping[TopicPartition, DesiredCommit], before: Mapping[TopicPartition, int], why: str
) -> list[CommitRow]:
    return [_row(group, key, value, before, before, Outcome.REFUSED, why) for key, value in wanted.items()]


def _row(
    group: str,
    key: TopicPartition,
    wanted: DesiredCommit,
    before: Mapping[TopicPartition, int],
    after: Mapping[TopicPartition, int],
    what: Outcome,
    message: str,
) -> CommitRow:
    held = before.get(key, NOTHING), after.get(key, NOTHING)
    return group, *key, wanted.target_offset, *held, str(what), message
