"""The logs of some topics as they stand: asked of a cluster by the driver, and as a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame, SparkSession

from gateway.jobs.offset_map import RANGES
from gateway.kafka.cluster import Cluster
from gateway.kafka.offsets import EARLIEST, LATEST, list_offsets
from gateway.kafka.topic_partition import TopicPartition

LogRanges = dict[TopicPartition, tuple[int, int]]
"""(log start, readable end) of each partition; the end is the last stable offset."""

_POLL_S = 0.2


async def log_ranges(cluster: Cluster, topics: Collection[str], names: Mapping[str, str] = {}) -> LogRanges:
    """Starts and ends of every partition of the topics.

    Args:
        names: topic -> what it is called on this cluster, if otherwise.

    Raises:
        ValueError: the cluster does not have one of the topics.
        NetError: the cluster does not answer, or refuses.
    """
    here = {topic: names.get(topic, topic) for topic in topics}
    view = await cluster.refresh(tuple(here.values()))
    missing = [name for name in here.values() if name not in view.topics or not view.topics[name].partitions]
    if missing:
        raise ValueError(f"the cluster {view.cluster_id} has no topic {missing[0]}, or none that may be read")
    partitions = [(topic, index) for topic, name in here.items() for index in view.topics[name].partitions]
    # The end first: a log start that is read later is never beyond the end that is used.
    ends = await _ask(cluster, partitions, LATEST, names)
    starts = await _ask(cluster, partitions, EARLIEST, names)
    return {key: (min(starts[key], ends[key]), ends[key]) for key in partitions}


async def _ask(
    cluster: Cluster, partitions: Collection[TopicPartition], at: int, names: Mapping[str, str]
) -> dict[TopicPartition, int]:
    here = {(names.get(topic, topic), index): (topic, index) for topic, index in partitions}
    wanted: dict[str, dict[int, int]] = {}
    for name, index in here:
        wanted.setdefault(name, {})[index] = at
    found = await list_offsets(cluster, wanted, read_committed=True, timeout_s=max(15.0, len(partitions) / 1000))
    return {here[key]: answer.offset for key, answer in found.items()}


def as_table(spark: SparkSession, ranges: LogRanges) -> DataFrame:
    """RANGES."""
    rows = [(topic, index, start, end) for (topic, index), (start, end) in sorted(ranges.items())]
    return spark.createDataFrame(rows, RANGES)
