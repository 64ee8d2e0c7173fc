"""The committed offsets of a cluster's groups, read by the executors: each task asks for some groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

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
