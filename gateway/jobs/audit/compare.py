"""The blocks of an audit: by one digest each where that can tell, batch by batch where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from gateway.jobs.audit.batches import compare_batches
from gateway.jobs.audit.blocks import compare_blocks, is_unequal
from gateway.jobs.audit.reading import Reader, read_batches, read_digests
from gateway.jobs.audit.scene import AuditOptions, Scene, key_of
from gateway.net.routed import Partition

LARGE_RECORD: Final = 8192
"""Bytes: with larger records a block of 2^16 offsets would be too much for one task, and rows of batches are few."""


def readers(spark: SparkSession, options: AuditOptions, scene: Scene) -> tuple[Reader, Reader]:
    """Of the source and of the target."""
    return (
        Reader(spark, options.source, scene.tasks),
        Reader(spark, options.target, scene.tasks, options.names),
    )


class Comparison:
    """Compares, and keeps what it has found until `close`. `say` gets a line when it has to look closer."""

    def __init__(self, spark: SparkSession, options: AuditOptions, scene: Scene, say: Callable[[str], None]) -> None:
        self._spark = spark
        self._options = options
        self._scene = scene
        self._say = say
        self._kept: list[DataFrame] = []

    def blocks(self) -> DataFrame:
        """BLOCKS of all partitions."""
        if not self._may_be_summed_up():
            return self._keep(self._by_batch(None))
        summed = self._keep(self._by_block())
        unequal = {key_of(row) for row in summed.where(is_unequal()).select("topic", "partition").distinct().collect()}
        if not unequal:
            return summed
        self._say(f"{len(unequal)} partition(s) have blocks that are not equal: comparing their batches")
        others = self._spark.createDataFrame(sorted(unequal), summed.select("topic", "partition").schema)
        equal = summed.join(others, ["topic", "partition"], "left_anti")
        return self._keep(equal.unionByName(self._by_batch(unequal)))

    def close(self) -> None:
        """What was found is not needed any more."""
        for one in self._kept:
            one.unpersist()

    def _keep(self, found: DataFrame) -> DataFrame:
        self._kept.append(found.persist())
        return found

    def _may_be_summed_up(self) -> bool:
        """Offsets are equal, all of them are looked at, and a block is no more than a task should read."""
        offsets = sum(one.end - one.start for one in self._scene.compared)
        return (
            self._options.segments is None
            and self._options.fraction >= 1
            and bool(self._scene.pieces)
            and self._scene.bytes < LARGE_RECORD * offsets
        )

    def _by_block(self) -> DataFrame:
        (pieces,) = self._scene.pieces
        here, there = readers(self._spark, self._options, self._scene)
        return compare_blocks(
            read_digests(here, {key: piece.source for key, piece in pieces.items()}),
            read_digests(there, {key: piece.target for key, piece in pieces.items()}),
        )

    def _by_batch(self, some: Collection[Partition] | None) -> DataFrame:
        """Of some partitions, or of all."""
        parts = []
        for pieces in self._scene.pieces or [{}]:
            wanted = {key: piece for key, piece in pieces.items() if some is None or key in some}
            here, there = readers(self._spark, self._options, self._scene)
            source = read_batches(here, {key: piece.source for key, piece in wanted.items()})
            target = read_batches(there, {key: piece.target for key, piece in wanted.items()})
            parts.append(compare_batches(source, target, self._scene.segments))
        return reduce(DataFrame.unionByName, parts)
