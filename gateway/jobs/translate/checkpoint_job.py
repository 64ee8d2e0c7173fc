"""Offsets that Spark itself keeps: a Structured Streaming checkpoint folder through the map, into a new folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from gateway.jobs.kafka import ask
from gateway.jobs.offset_map import Rule
from gateway.jobs.topic_ranges import LogRanges, as_table
from gateway.jobs.translate.by_link import ByLink
from gateway.jobs.translate.job import target_ranges, through
from gateway.jobs.translate.schemas import OFFSETS
from gateway.jobs.translate.spark_checkpoint import (
    QUIET_S,
    OffsetsFile,
    of_topics,
    read_checkpoint,
    require_no_writer,
    write_checkpoint,
)
from gateway.net.cluster import Cluster

Key = tuple[str, int, str, int]
"""File, line, topic, partition."""


def offsets_table(spark: SparkSession, files: list[OffsetsFile]) -> DataFrame:
    """OFFSETS, whose `group` is the file and whose `metadata` is the line."""
    rows = [
        (file.path, topic, partition, offset, str(line))
        for file in files
        for line, found in file.kafka.items()
        for (topic, partition), offset in found.items()
    ]
    return spark.createDataFrame(rows, OFFSETS)


def existing(properties: Mapping[str, str], files: list[OffsetsFile]) -> frozenset[str]:
    """The topics in the files that a cluster has."""
    topics = sorted({topic for file in files for found in file.kafka.values() for topic, _ in found})

    async def here(cluster: Cluster) -> frozenset[str]:
        return frozenset((await cluster.refresh(tuple(topics))).topics)

    return ask(properties, here)


def rewrite(
    spark: SparkSession,
    old: Path,
    new: Path,
    target: Mapping[str, str],
    segments: Callable[[LogRanges], DataFrame] | None,
    *,
    by_link: ByLink | None = None,
    inexact: bool = False,
    source: Mapping[str, str] | None = None,
    quiet_s: float = QUIET_S,
    write: bool = True,
) -> dict[str, Any]:
    """Translate every offset in the folder `old` and write the folder `new` (if `write`); the old one stays.

    Args:
        inexact: write it too when an offset of the last batch is not exact.
        source: the cluster that the query reads. A line of the offset log does not say of which cluster it is: with it,
            the topics that this cluster lacks are another one's, and their lines stay as they are.
        quiet_s: for how long the folder must not have been written.

    Raises:
        BadCheckpoint: no checkpoint, one that cannot be rewritten, or `new` exists.
    """
    require_no_writer(old, quiet_s)
    files = read_checkpoint(old)
    if source:
        files = of_topics(files, existing(source, files))
    table = offsets_table(spark, files)
    topics = sorted({topic for file in files for found in file.kafka.values() for topic, _ in found})
    logs = target_ranges(target, topics)
    rows = through(table, logs, as_table(spark, logs), segments, by_link).collect()
    found: dict[Key, int] = {
        (row["group"], int(row.metadata), row.topic, row.partition): row.target_offset
        for row in rows
        if row.target_offset is not None
    }
    changed = [
        file.with_offsets({key[1:]: offset for key, offset in found.items() if key[0] == file.path}) for file in files
    ]
    last = max((file for file in files if file.path.startswith("offsets/")), key=lambda file: int(file.path[8:])).path
    inexact_rows = [row.asDict() for row in rows if row["group"] == last and not row.exact]
    written = write and (inexact or not inexact_rows)
    if written:
        require_no_writer(old, quiet_s)
        write_checkpoint(old, new, changed)
    return {
        "format": "lockgate-checkpoint/1",
        "old": str(old),
        "new": str(new),
        "written": written,
        "files": [file.path for file in files],
        "offsets": len(found),
        "rules": {str(rule): sum(row.rule == rule for row in rows) for rule in Rule},
        "last_batch": last,
        "last_batch_not_exact": inexact_rows,
    }
