"""Streaming queries over ranges of offsets, the same for batches and for records.

Offsets are kept by Spark's checkpoint as {"topic": {"0": 12}}, as its own Kafka source writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from gateway.jobs.kafka import Loop
from gateway.jobs.source.options import SourceOptions
from gateway.jobs.source.ranges import (
    Offsets,
    find_partitions,
    latest_offsets,
    make_ranges,
    start_offsets,
)
from gateway.net.cluster import BrokerError, Cluster
from gateway.net.log_dirs import log_sizes
from gateway.net.offsets import EARLIEST, list_offsets

Read = Callable[[SourceOptions, StructType, InputPartition], Iterator[pa.RecordBatch]]


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver; `read` runs in tasks.

    A partition that appears later is read from its start.
    """

    def __init__(self, options: SourceOptions, schema: StructType, read: Read) -> None:
        self._options = options
        self._schema = schema
        self._read = read
        self._loop: Loop | None = None
        self._cluster: Cluster | None = None
        self._target: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What goes to the executors: no connection of the driver's."""
        return {**self.__dict__, "_loop": None, "_cluster": None}

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        loop, cluster = self._connected()

        async def find() -> Offsets:
            return await start_offsets(cluster, self._options, await find_partitions(cluster, self._options))

        return to_json(loop.run(find()))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends: at the readable ends, or earlier by the limit."""
        loop, cluster = self._connected()
        return to_json(loop.run(self._next_end(cluster, from_json(start), limit)))

    def getDefaultReadLimit(self) -> ReadLimit:
        """From maxBytesPerTrigger."""
        limit = self._options.max_bytes_per_trigger
        return ReadMaxBytes(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """This run ends at what is readable now."""
        loop, cluster = self._connected()
        self._target = loop.run(self._ends(cluster))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of one micro-batch."""
        loop, cluster = self._connected()
        starts, ends = from_json(start), from_json(end)
        starts = loop.run(with_new_partitions(cluster, starts, ends))
        return make_ranges(starts, ends, self._options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, in order."""
        return self._read(self._options, self._schema, partition)

    def stop(self) -> None:
        """The query has ended."""
        loop, self._loop, self._cluster = self._loop, None, None
        if loop is not None:
            loop.__exit__(None, None, None)

    def _connected(self) -> tuple[Loop, Cluster]:
        if self._loop is None or self._cluster is None:
            self._loop = Loop()
            self._cluster = self._loop.connect(self._options.properties)
        return self._loop, self._cluster

    async def _ends(self, cluster: Cluster) -> Offsets:
        return await latest_offsets(cluster, self._options, await find_partitions(cluster, self._options))

    async def _next_end(self, cluster: Cluster, starts: Offsets, limit: ReadLimit) -> Offsets:
        ends = await self._ends(cluster) if self._target is None else self._target
        starts = await with_new_partitions(cluster, starts, ends)
        if not isinstance(limit, ReadMaxBytes):
            return {**starts, **ends}
        sizes = await bytes_per_offset(cluster, ends)
        return {**starts, **limited(starts, ends, sizes, limit.max_bytes)}


async def with_new_partitions(cluster: Cluster, starts: Mapping[Any, int], ends: Mapping[Any, int]) -> Offsets:
    """The starts, with the log starts of partitions that only the ends have."""
    missing: dict[str, dict[int, int]] = {}
    for topic, index in ends.keys() - starts.keys():
        missing.setdefault(topic, {})[index] = EARLIEST
    found = await list_offsets(cluster, missing) if missing else {}
    return {**starts, **{partition: at.offset for partition, at in found.items()}}


async def bytes_per_offset(cluster: Cluster, ends: Offsets) -> dict[tuple[str, int], float]:
    """About how many bytes an offset of each partition takes, from the size of its log; 0 where that is not known."""
    try:
        sizes = await log_sizes(cluster, {topic for topic, _ in ends})
    except BrokerError:  # it takes DESCRIBE on the cluster
        return dict.fromkeys(ends, 0.0)
    topics: dict[str, dict[int, int]] = {}
    for topic, index in ends:
        topics.setdefault(topic, {})[index] = EARLIEST
    starts = await list_offsets(cluster, topics) if topics else {}
    return {
        partition: sizes.get(partition, 0) / max(1, end - starts[partition].offset) for partition, end in ends.items()
    }


def limited(starts: Offsets, ends: Offsets, bytes_per: Mapping[tuple[str, int], float], max_bytes: int) -> Offsets:
    """Ends that lie about `max_bytes` after the starts, each partition getting the same part of what it has."""
    total = sum((end - starts[partition]) * bytes_per.get(partition, 0.0) for partition, end in ends.items())
    if total <= max_bytes:
        return dict(ends)
    part = max_bytes / total
    return {
        partition: min(end, starts[partition] + max(1, int((end - starts[partition]) * part)))
        for partition, end in ends.items()
    }


def to_json(offsets: Offsets) -> dict[str, Any]:
    """As Spark keeps them."""
    value: dict[str, Any] = {}
    for (topic, index), offset in sorted(offsets.items()):
        value.setdefault(topic, {})[str(index)] = offset
    return value


def from_json(value: Mapping[str, Mapping[str, int]]) -> Offsets:
    """From what Spark kept."""
    return {(topic, int(index)): offset for topic, of in value.items() for index, offset in of.items()}
