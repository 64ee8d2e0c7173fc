"""Streaming queries over ranges of offsets, the same for batches and for records.

Offsets are kept by Spark's checkpoint as {"topic": {"0": 12}}, as its own Kafka source writes them. The topics' ids are
kept with them: an offset of a topic that was deleted and created anew is another record's.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from gateway.jobs.kafka import Loop
from gateway.jobs.source.options import SourceOptions
from gateway.jobs.source.ranges import (
    Offsets,
    clip_to_log_starts,
    data_lost,
    find_partitions,
    latest_offsets,
    make_ranges,
    start_offsets,
)
from gateway.kafka.admin import log_sizes
from gateway.kafka.cluster import BrokerError, Cluster
from gateway.kafka.offsets import EARLIEST, list_offsets
from gateway.kafka.topic_partition import TopicPartition

IDS: Final = "@ids"
_log = logging.getLogger(__name__)

_Ends = tuple[Offsets, dict[str, str]]
"""Log ends, and the ids of the topics that they are of."""

Read = Callable[[SourceOptions, StructType, InputPartition], Iterator[pa.RecordBatch]]


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver; `read` runs in tasks.

    A partition that appears later is read from its start.
    """

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        read: Read,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._clock = clock
        self._schema = schema
        self._read = read
        self._loop: Loop | None = None
        self._cluster: Cluster | None = None
        self._target: _Ends | None = None
        self._triggered_at: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What goes to the executors: no connection of the driver's."""
        return {**self.__dict__, "_loop": None, "_cluster": None}

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        loop, cluster = self._connected()

        async def find() -> Offsets:
            partitions = await find_partitions(cluster, self._options)
            return await start_offsets(cluster, self._options, partitions, stream=True)

        return to_json(loop.run(find()), topic_ids(cluster, self._options))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends: at the readable ends, or earlier by the limit.

        Raises:
            ValueError: records that were to be read are gone, or a topic is, or was created anew, and failOnDataLoss.
        """
        loop, cluster = self._connected()
        ends = loop.run(self._next_end(cluster, start, limit))
        return to_json(ends, ids_in(start) | topic_ids(cluster, self._options))

    def getDefaultReadLimit(self) -> ReadLimit:
        """From maxBytesPerTrigger and maxOffsetsPerTrigger."""
        limit, rows = self._options.max_bytes_per_trigger, self._options.max_offsets_per_trigger
        if rows:
            return ReadMaxRows(rows)
        return ReadMaxBytes(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """This run ends at what is readable now."""
        loop, cluster = self._connected()
        self._target = loop.run(self._ends(cluster))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of one micro-batch. Raises as `latestOffset`: a query that starts again has both from before."""
        loop, cluster = self._connected()
        ends = from_json(end)
        starts = loop.run(self._still_there(cluster, start, ends))
        ends = {key: at for key, at in ends.items() if key in starts}  # of a topic that is not there nothing is read
        gone = recreated(ids_in(end), topic_ids(cluster, self._options), fail=self._options.fail_on_data_loss)
        ends = {key: at for key, at in ends.items() if key[0] not in gone}  # they were offsets of the topic before
        return make_ranges(starts, ends, self._options.min_partitions, self._options.max_records_per_partition)

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

    async def _ends(self, cluster: Cluster) -> _Ends:
        partitions = await find_partitions(cluster, self._options)
        ids = topic_ids(cluster, self._options)
        return await latest_offsets(cluster, self._options, partitions), ids

    async def _next_end(self, cluster: Cluster, start: dict[str, Any], limit: ReadLimit) -> Offsets:
        ends, ids = await self._ends(cluster) if self._target is None else self._target
        starts = await self._still_there(cluster, start, ends)
        away = self._away(cluster, from_json(start))
        anew = recreated(ids, topic_ids(cluster, self._options), fail=self._options.fail_on_data_loss)
        if anew:  # since the ends were asked for
            now = await latest_offsets(cluster, self._options, [key for key in starts if key[0] in anew])
            ends = {**ends, **now}
        ends = {key: max(ends[key], at) for key, at in starts.items()}
        if self._waits(sum(end - starts[key] for key, end in ends.items())):
            return from_json(start)
        if isinstance(limit, ReadMaxRows):
            return {**away, **starts, **limited(starts, ends, dict.fromkeys(ends, 1.0), limit.max_rows)}
        if not isinstance(limit, ReadMaxBytes):
            return {**away, **starts, **ends}
        sizes = await bytes_per_offset(cluster, ends)
        if any(ends.values()) and not any(sizes.values()):
            raise ValueError(
                "maxBytesPerTrigger: the cluster does not tell the sizes of its logs (that takes DESCRIBE on the "
                "cluster); set maxOffsetsPerTrigger"
            )
        return {**away, **starts, **limited(starts, ends, sizes, limit.max_bytes)}

    def _waits(self, available: int) -> bool:
        """Too little is there for a micro-batch, and there was one not long ago (minOffsetsPerTrigger)."""
        least, now = self._options.min_offsets_per_trigger, self._clock()
        if self._target is None and self._triggered_at is not None and available < least:
            return now < self._triggered_at + self._options.max_trigger_delay_s
        self._triggered_at = now
        return False

    async def _still_there(self, cluster: Cluster, start: dict[str, Any], ends: Offsets) -> Offsets:
        """The starts of what is in `ends`, as far as they are there; those of topics created anew begin anew.

        Raises:
            ValueError: a partition that was read is not there any more, or not its next record, and failOnDataLoss.
        """
        await find_partitions(cluster, self._options)
        fail = self._options.fail_on_data_loss
        read = from_json(start)
        missing = sorted(key for key in {**read, **ends} if self._is_missing(cluster, key))
        new = recreated(ids_in(start), topic_ids(cluster, self._options), fail=fail)
        if missing and fail:
            where = f", read to offset {read[missing[0]]}," if missing[0] in read else ""
            raise ValueError(
                data_lost("{}-{}".format(*missing[0]) + f"{where} is not there: deleted, or its reader lacks DESCRIBE")
            )
        for key in missing:
            _log.warning("%s-%d is not there any more; reading goes on without it", *key)
        ends = {key: at for key, at in ends.items() if key not in missing}
        kept_ones = {key: at for key, at in read.items() if key[0] not in new and key in ends}
        starts = await with_new_partitions(cluster, kept_ones, ends)
        begins = await with_new_partitions(cluster, {}, ends)
        return clip_to_log_starts(starts, ends, begins, fail=fail)

    def _away(self, cluster: Cluster, read: Offsets) -> Offsets:
        """Of topics that are not there: should one come back under its id, reading goes on where it was."""
        gone = {topic for topic, _ in read if topic not in cluster.view.topics and _wanted(topic, self._options)}
        return {key: at for key, at in read.items() if key[0] in gone}

    def _is_missing(self, cluster: Cluster, key: TopicPartition) -> bool:
        """A partition that the options name and the cluster does not."""
        known = cluster.view.topics.get(key[0])
        return _wanted(key[0], self._options) and (known is None or key[1] not in known.partitions)


def topic_ids(cluster: Cluster, options: SourceOptions) -> dict[str, str]:
    """Of the topics that are read, by name; none from brokers without topic ids (before 2.8)."""
    topics = {name: topic for name, topic in cluster.view.topics.items() if _wanted(name, options)}
    return {name: topic.topic_id.hex() for name, topic in topics.items() if any(topic.topic_id)}


def _wanted(name: str, options: SourceOptions) -> bool:
    return re.fullmatch(options.pattern, name) is not None if options.pattern else name in options.topics


def recreated(before: Mapping[str, str], now: Mapping[str, str], *, fail: bool) -> frozenset[str]:
    """The topics that were deleted and created anew.

    Raises:
        ValueError: there is one, and `fail`.
    """
    found = sorted(name for name, known in before.items() if now.get(name, known) != known)
    if found and fail:
        raise ValueError(data_lost(f"topic {found[0]} was deleted and created anew: its offsets are other records'"))
    for name in found:
        _log.warning("topic %s was deleted and created anew; it is read from its beginning", name)
    return frozenset(found)


async def with_new_partitions(cluster: Cluster, starts: Mapping[Any, int], ends: Mapping[Any, int]) -> Offsets:
    """The starts, with the log starts of partitions that only the ends have."""
    missing: dict[str, dict[int, int]] = {}
    for topic, index in ends.keys() - starts.keys():
        missing.setdefault(topic, {})[index] = EARLIEST
    found = await list_offsets(cluster, missing) if missing else {}
    return {**starts, **{partition: at.offset for partition, at in found.items()}}


async def bytes_per_offset(cluster: Cluster, ends: Offsets) -> dict[TopicPartition, float]:
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


def limited(starts: Offsets, ends: Offsets, bytes_per: Mapping[TopicPartition, float], max_bytes: int) -> Offsets:
    """Ends that lie about `max_bytes` after the starts, each partition getting the same part of what it has."""
    total = sum((end - starts[partition]) * bytes_per.get(partition, 0.0) for partition, end in ends.items())
    if total <= max_bytes:
        return dict(ends)
    part = max_bytes / total
    return {
        partition: min(end, starts[partition] + max(1, int((end - starts[partition]) * part)))
        for partition, end in ends.items()
    }


def to_json(offsets: Offsets, ids: Mapping[str, str] = {}) -> dict[str, Any]:
    """As Spark keeps them, with the topics' ids under `IDS`, which no topic can be called."""
    value: dict[str, Any] = {}
    for (topic, index), offset in sorted(offsets.items()):
        value.setdefault(topic, {})[str(index)] = offset
    of_these = {topic: one for topic, one in sorted(ids.items()) if topic in value}
    return {**value, IDS: of_these} if of_these else value


def from_json(value: Mapping[str, Mapping[str, int]]) -> Offsets:
    """From what Spark kept."""
    return {(topic, int(index)): offset for topic, of in value.items() if topic != IDS for index, offset in of.items()}


def ids_in(value: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The topics' ids in what Spark kept; none in what an older version wrote."""
    return dict(value.get(IDS, {}))
