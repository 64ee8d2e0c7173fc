"""MirrorMaker 2's own topics as tables: its checkpoints and offset syncs -> TRANSLATED, by the rules of `mm2_offsets`.

All of a partition, its syncs and the checkpoints of every group, comes to one task: 16 bytes a sync are little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from gateway.jobs.translate.mm2_offsets import (
    CheckpointMark,
    Mm2Found,
    Sync,
    decode_checkpoint,
    decode_offset_sync,
    history,
    translated,
)
from gateway.jobs.translate.schemas import TRANSLATED

_KEY: Final = (StructField("topic", StringType()), StructField("partition", IntegerType()))
_OFFSETS: Final = (StructField("upstream", LongType()), StructField("downstream", LongType()))

_CHECKPOINT: Final = StructType(
    [StructField("group", StringType()), *_KEY, *_OFFSETS, StructField("metadata", StringType())]
)
_SYNC: Final = StructType([*_KEY, *_OFFSETS])
_WRITTEN: Final = StructField("written_ms", LongType())

CHECKPOINTS: Final = StructType([*_CHECKPOINT.fields, _WRITTEN])
"""`topic`: on the target. `upstream`, `downstream`: the group's offset on the source, and what it was translated to.
`written_ms`: the record's timestamp."""

SYNCS: Final = StructType([*_SYNC.fields, StructField("at", LongType()), _WRITTEN])
"""`topic`: on the source. `upstream` and `downstream` are null in a tombstone. `at`: offset of the sync in the
offset-syncs topic, which is the order of the syncs."""

_Partition = tuple[tuple[str, int], tuple[Iterable[Row], Iterable[Row]]]


def checkpoints(records: DataFrame) -> DataFrame:
    """Records (key, value, offset, timestamp) of a checkpoints topic -> CHECKPOINTS, the last one of each group and
    partition; none where that is a tombstone, so that the answer is the same before and after a compaction."""
    decode = F.udf(decode_checkpoint, _CHECKPOINT, useArrow=False)
    record = F.struct("value", F.unix_millis("timestamp").alias("written_ms"))
    # By the bytes of the key: they are the group, the topic and the partition.
    latest = records.groupBy("key").agg(F.max_by(record, "offset").alias("last"))
    decoded = latest.select(decode("key", "last.value").alias("found"), "last.written_ms")
    return decoded.where(F.col("found").isNotNull()).select("found.*", "written_ms")


def offset_syncs(records: DataFrame) -> DataFrame:
    """Records (key, value, offset, timestamp) of an offset-syncs topic -> SYNCS, with the tombstones."""
    decode = F.udf(decode_offset_sync, _SYNC, useArrow=False)
    written = F.unix_millis("timestamp").alias("written_ms")
    decoded = records.select(decode("key", "value").alias("found"), F.col("offset").alias("at"), written)
    return decoded.where(F.col("found").isNotNull()).select("found.*", "at", "written_ms")


def translate_checkpoints(
    checkpoints: DataFrame, syncs: DataFrame, *, prefix: str, written_once: bool = False
) -> DataFrame:
    """CHECKPOINTS, made more precise by SYNCS -> TRANSLATED with the target's topic names.

    Args:
        prefix: what the target's topic names begin with, '' for nothing. A checkpoint of a topic without it was made
            under another replication policy, and no sync is about it.

    `lag` is null until `apply.clamp` sets it.
    """
    of_source = _source_topic(prefix)
    marks = checkpoints.rdd.map(lambda row: ((of_source(row.topic), row.partition), row))
    found = marks.cogroup(syncs.rdd.map(lambda row: ((row.topic, row.partition), row)))
    rows = found.flatMap(lambda one: _rows(one, written_once))
    return checkpoints.sparkSession.createDataFrame(rows, TRANSLATED)


def _source_topic(prefix: str) -> Callable[[str], str]:
    """The source's name of a topic; '' of one that has the prefix not."""
    return lambda topic: topic[len(prefix) :] if topic.startswith(prefix) else ""


def _rows(partition: _Partition, written_once: bool) -> Iterator[tuple[Any, ...]]:
    """Rows of TRANSLATED."""
    _, (marks, syncs) = partition
    known = history(_sync(row) for row in sorted(syncs, key=attrgetter("at")))
    for row in marks:
        mark = CheckpointMark(row.upstream, row.downstream, row.written_ms)
        yield _row(row, translated(mark, known, written_once=written_once))


def _sync(row: Row) -> Sync | None:
    return None if row.upstream is None else Sync(row.upstream, row.downstream, row.written_ms)


def _row(row: Row, found: Mm2Found) -> tuple[Any, ...]:
    copied = (row.group, row.topic, row.partition, row.upstream, row.metadata)
    return *copied, found.target_offset, found.exact, str(found.rule), None, found.why
