"""Offsets that Spark itself keeps: a Structured Streaming checkpoint folder through the map, into a new folder.

The folder is the driver's, and so is the text of its files. What is in their lines, an offset for each partition of
each batch, is parsed, translated and rendered by Spark's tasks: the driver gets whole lines back, one row for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from gateway.jobs.kafka import ask
from gateway.jobs.offset_map import RowRule
from gateway.jobs.spark_progress import described
from gateway.jobs.topic_ranges import LogRanges, as_table
from gateway.jobs.translate.apply import clamp
from gateway.jobs.translate.by_link import ByLink
from gateway.jobs.translate.job import target_ranges, through
from gateway.jobs.translate.schemas import OFFSETS
from gateway.jobs.translate.spark_checkpoint import (
    QUIET_S,
    BadCheckpoint,
    OffsetsFile,
    goes_on_from,
    of_topics,
    parse_offsets,
    read_checkpoint,
    render_offsets,
    require_new,
    require_no_writer,
    require_same_topics,
    require_unwritten,
    state_of,
    write_checkpoint,
)
from gateway.kafka.cluster import Cluster

_TOLD: Final = 1000
"""Offsets that are not exact of which the report tells, at most."""

_LINES_PER_TASK: Final = 20

_Line = tuple[str, int, str]
"""File, number and text."""


def offsets_table(spark: SparkSession, files: list[OffsetsFile]) -> DataFrame:
    """OFFSETS, whose `group` is the file and whose `metadata` is the line."""
    lines = [(file.path, number, file.lines[number]) for file in files for number in file.kafka]
    tasks = max(1, len(lines) // _LINES_PER_TASK)
    return spark.createDataFrame(spark.sparkContext.parallelize(lines, tasks).flatMap(_offsets), OFFSETS)


def rendered(translated: DataFrame) -> DataFrame:
    """TRANSLATED of `offsets_table` -> (path, line, text, missing), one row for each line. `missing`: a partition in it
    that has no offset on the target, or null."""
    lacking = F.when(F.col("target_offset").isNull(), F.concat_ws("-", "topic", "partition"))
    # Plain, since the one with Arrow wants pandas.
    text = F.udf(_text, StringType(), useArrow=False)
    entries = F.collect_list(F.struct("topic", "partition", "target_offset"))
    lines = translated.groupBy(F.col("group").alias("path"), F.col("metadata").cast("int").alias("line")).agg(
        F.min(lacking).alias("missing"), entries.alias("entries")
    )
    return lines.select("path", "line", "missing", F.when(F.col("missing").isNull(), text("entries")).alias("text"))


def _offsets(line: _Line) -> Iterator[tuple[str, str, int, int, str]]:
    path, number, text = line
    for (topic, partition), offset in (parse_offsets(text) or {}).items():
        yield path, topic, partition, offset, str(number)


def _text(entries: Iterable[Row]) -> str:
    return render_offsets({(one.topic, one.partition): one.target_offset for one in entries})


def topics_in(files: list[OffsetsFile]) -> list[str]:
    """Those of Kafka, in order."""
    return sorted({topic for file in files for found in file.kafka.values() for topic in found})


def existing(properties: Mapping[str, str], files: list[OffsetsFile]) -> dict[str, str]:
    """The topics in the files that a cluster has, with their ids; '' from brokers without."""
    topics = topics_in(files)

    async def here(cluster: Cluster) -> dict[str, str]:
        known = (await cluster.refresh(tuple(topics))).topics
        return {name: topic.topic_id.hex() if any(topic.topic_id) else "" for name, topic in known.items()}

    return ask(properties, here)


def of_source(files: list[OffsetsFile], begins: Collection[str], here: Mapping[str, str]) -> list[OffsetsFile]:
    """The files with only the source's topics to be translated. `here`: the source's, with ids.

    Raises:
        BadCheckpoint: a line is of both clusters, or of a topic that was created anew.
    """
    found = of_topics(files, here.keys())
    require_same_topics(found, begins, {topic: known for topic, known in here.items() if known})
    return found


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
    stopped: bool = False,
    write: bool = True,
    look_again: Callable[[], list[str]] = list,
) -> dict[str, Any]:
    """Translate every offset in the folder `old` and write the folder `new` (if `write`); the old one stays.

    Args:
        inexact: write it too when an offset that the query goes on from is not exact.
        source: the cluster that the query reads. A line of the offset log does not say of which cluster it is: with it,
            the topics that this cluster lacks are another one's, and their lines stay as they are.
        quiet_s: for how long the folder must not have been written.
        stopped: the query is, even if its last batch is not committed.
        look_again: asked when all is copied, right before it gets its name: what has changed since it was translated.

    Raises:
        BadCheckpoint: no checkpoint, one that cannot be rewritten, or `new` exists.
    """
    if write:
        require_new(old, new)
    require_no_writer(old, quiet_s, stopped=stopped)
    before = state_of(old)
    files = read_checkpoint(old)
    begins = goes_on_from(old, files)
    if source:
        files = of_source(files, begins, existing(source, files))
    logs = target_ranges(target, topics_in(files))
    table = offsets_table(spark, files)
    with described(spark, f"lockgate translate-offsets: {len(files)} file(s) of the checkpoint {old}"):
        ranges = as_table(spark, logs)
        translated = clamp(through(table, logs, ranges, segments, by_link), ranges).persist()
        try:
            changed = _changed(files, rendered(translated))
            counts = {row.rule: row["count"] for row in translated.groupBy("rule").count().collect()}
            not_exact = translated.where(F.col("group").isin(*begins) & ~F.col("exact")).limit(_TOLD).collect()
        finally:
            translated.unpersist()
    written = write and (inexact or not not_exact)

    def check() -> None:
        require_unwritten(old, before)
        if changes := look_again():
            raise BadCheckpoint(changes[0])

    if written:
        write_checkpoint(old, new, changed, check)
    return {
        "format": "lockgate-checkpoint/1",
        "old": str(old),
        "new": str(new),
        "written": written,
        "files": [file.path for file in files],
        "offsets": sum(counts.values()),
        "rules": {**{str(rule): 0 for rule in RowRule}, **counts},
        "last_batch": begins[-1],
        "runs_again_from": list(begins[:-1]),
        "last_batch_not_exact": [row.asDict() for row in not_exact],
    }


def _changed(files: list[OffsetsFile], lines: DataFrame) -> list[OffsetsFile]:
    """The files with these lines. Raises BadCheckpoint for an offset without a translation."""
    texts: dict[str, dict[int, str]] = {file.path: {} for file in files}
    for row in lines.toLocalIterator():  # one task's lines at a time
        if row.missing is not None:
            raise BadCheckpoint(f"{row.path}: {row.missing} has no offset on the target")
        texts[row.path][row.line] = row.text
    return [file.with_lines(texts[file.path]) for file in files]
