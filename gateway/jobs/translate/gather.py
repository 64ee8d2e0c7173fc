"""Committed offsets to be translated: of a cluster's groups, or of one group, kept in a file.

The executors read those of a cluster: each task asks for some groups. A file is CSV, JSON or Parquet of (topic,
partition, offset).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from gateway.jobs.inputs import read_table
from gateway.jobs.kafka import Loop, ask
from gateway.jobs.translate.schemas import OFFSETS
from gateway.kafka.cluster import Cluster
from gateway.kafka.commits import Committed, committed_offsets
from gateway.kafka.groups import list_groups
from gateway.kafka.topic_partition import TopicPartition

AT_ONCE: Final = 16
"""Groups that one task asks for at the same time."""

GROUPS_PER_TASK: Final = 250

OffsetRow = tuple[str, str, int, int, str]


def find_groups(properties: Mapping[str, str], wanted: Collection[str]) -> list[str]:
    """The names of the groups to translate: those named, or all consumer groups (and groups without members).

    Raises:
        ValueError: a group that the cluster does not have.
        NetError: a broker does not answer.
    """
    listed = ask(properties, list_groups)
    names = [one.group for one in listed if one.protocol_type in ("consumer", "")]
    if not wanted:
        return names
    missing = sorted(set(wanted).difference(one.group for one in listed))
    if missing:
        raise ValueError(f"the cluster has no group {missing[0]}")
    return list(dict.fromkeys(wanted))


def read_offsets(
    spark: SparkSession, properties: Mapping[str, str], groups: Sequence[str], topics: Collection[str]
) -> DataFrame:
    """OFFSETS of the groups.

    Args:
        topics: only these; all when empty.
    """
    tasks = max(1, min(len(groups), -(-len(groups) // GROUPS_PER_TASK), 4 * spark.sparkContext.defaultParallelism))
    found = spark.sparkContext.parallelize(groups, tasks).mapPartitions(_reader(dict(properties), frozenset(topics)))
    return spark.createDataFrame(found, OFFSETS)


def _reader(properties: Mapping[str, str], topics: frozenset[str]) -> Callable[[Iterable[str]], Iterator[OffsetRow]]:
    def read(groups: Iterable[str]) -> Iterator[OffsetRow]:
        with Loop() as loop:
            cluster: Cluster | None = None
            for some in _chunks(groups, AT_ONCE):
                cluster = cluster or loop.connect(properties)
                for group, committed in zip(some, loop.run(_ask_all(cluster, some)), strict=True):
                    for (topic, partition), value in sorted(committed.items()):
                        if not topics or topic in topics:
                            yield group, topic, partition, value.offset, value.metadata

    return read


async def _ask_all(cluster: Cluster, groups: Sequence[str]) -> list[dict[TopicPartition, Committed]]:
    return await asyncio.gather(*(committed_offsets(cluster, group, timeout_s=60) for group in groups))


def _chunks(groups: Iterable[str], size: int) -> Iterator[list[str]]:
    some: list[str] = []
    for group in groups:
        some.append(group)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some


_OFFSET = "source_offset"


def read_offsets_file(spark: SparkSession, path: str, group: str) -> DataFrame:
    """OFFSETS of `group`; without one, of the groups that the file names, if it does.

    Raises:
        ValueError: a row that is of another group, or has something that is no whole number of 0 or more; or more than
            one row of a partition.
    """
    wanted = StructType(
        [StructField("offset" if field.name == _OFFSET else field.name, field.dataType) for field in OFFSETS]
    )
    found = read_table(spark, path, wanted, optional={"group": group, "metadata": ""})
    found = found.withColumnRenamed("offset", _OFFSET).na.fill("", ["metadata", "group"])
    if group:
        _refuse(path, found.where(F.col("group") != group), f"--group {group}, but a row is of another group")
    negative = (F.col(_OFFSET) < 0) | (F.col("partition") < 0)
    _refuse(path, found.where(negative), "a partition or an offset is below 0")
    several = found.groupBy("group", "topic", "partition").count().where(F.col("count") > 1)
    _refuse(path, several, "several rows of one partition for one group; keep the right one")
    return found


def _refuse(path: str, bad: DataFrame, why: str) -> None:
    row = next(iter(bad.take(1)), None)
    if row is not None:
        raise ValueError(f"{path}: {why}: {row.asDict()}")
