"""The audit's tasks on Spark: each row is a piece of work, and its answer. Both logs are read and compared in the task,
so next to nothing goes through Spark, and what goes is one row for some hundred megabytes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from gateway.jobs.audit.pieces import AuditPiece, Span
from gateway.jobs.audit.schema_ids import IdTranslation
from gateway.jobs.audit.side import LogBatch
from gateway.jobs.audit.sums import Answer
from gateway.jobs.audit.work import Work, do
from gateway.jobs.kafka import Loop
from gateway.kafka.cluster import BrokerError, Cluster
from gateway.kafka.connection.errors import NetError
from gateway.kafka.logs.range_reader import RangeReader
from gateway.kafka.offsets import EARLIEST, LATEST, list_offsets
from protocol.errors import ErrorCode

_ROW: Final = StructType([StructField("data", BinaryType())])


def run(
    spark: SparkSession,
    works: Sequence[Work],
    source: Mapping[str, str],
    target: Mapping[str, str],
    ids: Mapping[str, IdTranslation] = {},
) -> list[Answer]:
    """Do the work, each piece in a task of its own.

    Args:
        source, target: Kafka client properties.
        ids: by source topic, of those whose schema ids are written anew.
    """
    if not works:
        return []
    source, target, ids = dict(source), dict(target), dict(ids)

    def task(data: bytes) -> bytes:
        return pickle.dumps(_answer(pickle.loads(bytes(data)), source, target, ids))  # noqa: S301 (the driver's own)

    rows = spark.createDataFrame([(bytearray(pickle.dumps(work)),) for work in works], _ROW)
    spread = rows.coalesce(1).repartition(len(works))  # from one partition they are dealt out one by one
    # Plain, since the one with Arrow wants pandas; and never to be called twice for a row.
    answer = F.udf(task, BinaryType(), useArrow=False).asNondeterministic()
    return [pickle.loads(bytes(row.data)) for row in spread.select(answer("data").alias("data")).collect()]  # noqa: S301


def _answer(
    work: Work, source: Mapping[str, str], target: Mapping[str, str], ids: Mapping[str, IdTranslation]
) -> Answer:
    piece = work.piece
    try:
        with Loop() as loop:
            logs = _Clusters(loop, loop.connect(source), loop.connect(target), piece)
            return do(work, logs, ids.get(piece.topic))
    except NetError as exc:
        return Answer(
            topic=piece.topic, partition=piece.partition, piece=piece.number, sums=None, problem=f"no answer: {exc}"
        )


class _Clusters:
    """Both logs of one partition, on one event loop."""

    def __init__(self, loop: Loop, source: Cluster, target: Cluster, piece: AuditPiece) -> None:
        self._loop = loop
        self._places = {True: (source, piece.topic), False: (target, piece.target_topic)}
        self._partition = piece.partition

    def feed(self, is_source: bool, span: Span) -> ClusterFeed:
        """Some of one log."""
        cluster, topic = self._places[is_source]
        return ClusterFeed(self._loop, cluster, topic, self._partition, span)

    def now(self, is_source: bool) -> Span:
        """From the log start to the last stable offset."""
        cluster, topic = self._places[is_source]
        end = self._loop.run(_offset(cluster, topic, self._partition, LATEST))
        start = self._loop.run(_offset(cluster, topic, self._partition, EARLIEST))
        return Span(min(start, end), end)


class ClusterFeed:
    """The batches of a span, read from a cluster. What retention takes meanwhile is told by `log_start`."""

    def __init__(self, loop: Loop, cluster: Cluster, topic: str, partition: int, span: Span) -> None:
        self.log_start = 0
        self._loop = loop
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._span = span

    def __iter__(self) -> Iterator[LogBatch]:
        position = self._span.low
        while position < self._span.high:
            reader = RangeReader(self._cluster, self._topic, self._partition, position, self._span.high, with_last=True)
            try:
                while (chunk := self._loop.run(reader.next())) is not None:
                    for index, header in enumerate(chunk.headers):
                        data = chunk.records[chunk.bounds[index] : chunk.bounds[index + 1]]
                        yield LogBatch(header, chunk.aborted[index], data)
                return
            except BrokerError as exc:
                if exc.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                start = self._loop.run(_offset(self._cluster, self._topic, self._partition, EARLIEST))
                if start <= reader.position:
                    raise
                position = self.log_start = start


async def _offset(cluster: Cluster, topic: str, partition: int, at: int) -> int:
    found = await list_offsets(cluster, {topic: {partition: at}}, read_committed=True)
    return found[topic, partition].offset
