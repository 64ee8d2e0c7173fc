"""Reads log starts and ends. Questions that come at the same time share requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from gateway.kafka.cluster import BrokerError, Cluster, NetError, PartitionErrors
from gateway.kafka.offsets import EARLIEST, LATEST, OffsetAt, list_offsets
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.partition.log_start import batch_at
from gateway.mirror.partition.rules.fetch_cursor import WARM_UP_MS
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.transport.tasks import Tasks
from protocol.batch.header import OldFormat
from protocol.errors import ErrorCode, ProtocolError, error_name

_TIMEOUT_S = 4.0
_GATHER_S = 0.002


class LogBounds(NamedTuple):
    """Log start, log end (high watermark), and the last batch before the end if it was asked for.

    `recent`: the first offset of the log's last WARM_UP_MS; None if it was not asked for, or no record has a time.
    """

    start: int
    end: int
    tail: LogTail | None
    recent: int | None = None


Answer = Callable[[LogBounds | str], None]
"""Receives the bounds, or why they could not be read."""


class LogReader:
    """Args: the cluster, whether to read the last batch too, where to run the requests, and the time of day."""

    __slots__ = ("_cluster", "_recent", "_tails", "_tasks", "_wall_ms", "_wanted")

    def __init__(
        self, cluster: Cluster, tasks: Tasks, *, tails: bool, wall_ms: Callable[[], int] | None = None
    ) -> None:
        self._wall_ms = wall_ms
        self._recent: set[TopicPartition] = set()  # partitions for which `recent` is asked
        self._cluster = cluster
        self._tasks = tasks
        self._tails = tails
        self._wanted: dict[TopicPartition, list[Answer]] = {}

    def ask(self, partition: TopicPartition, delay_s: float, answer: Answer, *, recent: bool = False) -> None:
        """Read a partition's bounds after `delay_s` seconds and call `answer`, always once."""
        asyncio.get_running_loop().call_later(delay_s, self._want, partition, answer, recent)

    def _want(self, partition: TopicPartition, answer: Answer, recent: bool) -> None:
        if recent:
            self._recent.add(partition)
        if not self._wanted:
            asyncio.get_running_loop().call_later(_GATHER_S, self._flush)
        self._wanted.setdefault(partition, []).append(answer)

    def _flush(self) -> None:
        wanted, self._wanted = self._wanted, {}
        recent, self._recent = self._recent, set()
        self._tasks.spawn(self._read(wanted, recent), "mirror log bounds")

    async def _read(self, wanted: dict[TopicPartition, list[Answer]], recent: set[TopicPartition]) -> None:
        # The end first: a log start read later can only be higher, and `_bounds` caps it at the end.
        ends, errors = await self._offsets(dict.fromkeys(wanted, LATEST))
        starts, more = await self._offsets(dict.fromkeys(ends, EARLIEST))
        errors |= more
        found = {key: (starts[key].offset, ends[key].offset) for key in starts}
        outcomes = dict(
            zip(found, await asyncio.gather(*(self._bounds(key, *at) for key, at in found.items())), strict=True)
        )
        asked = {key: bounds for key, bounds in outcomes.items() if key in recent and isinstance(bounds, LogBounds)}
        for key, outcome in (outcomes | await self._with_recent(asked) | errors).items():
            for answer in wanted[key]:
                answer(outcome)

    async def _with_recent(self, asked: dict[TopicPartition, LogBounds]) -> dict[TopicPartition, LogBounds | str]:
        """Add where the last WARM_UP_MS of each log begins, counted back from its last batch."""
        filled = {key: bounds for key, bounds in asked.items() if bounds.start < bounds.end}
        last = await asyncio.gather(*(self._last_timestamp(key, bounds.end) for key, bounds in filled.items()))
        result: dict[TopicPartition, LogBounds | str] = dict(asked)
        result |= {key: at for key, at in zip(filled, last, strict=True) if isinstance(at, str)}
        times = {key: at for key, at in zip(filled, last, strict=True) if isinstance(at, int) and at >= 0}
        found, errors = await self._offsets({key: max(0, at - WARM_UP_MS) for key, at in times.items()})
        result |= {key: asked[key]._replace(recent=at.offset) for key, at in found.items() if at.offset >= 0}
        return result | errors

    async def _last_timestamp(self, key: TopicPartition, end: int) -> int | str:
        """The last batch's timestamp, at most now; -1 if it has none, or its format has no producers."""
        try:
            header = await batch_at(self._cluster, *key, end - 1, timeout_s=_TIMEOUT_S)
        except OldFormat:
            return -1
        except BrokerError as exc:
            return -1 if exc.code == ErrorCode.OFFSET_OUT_OF_RANGE else str(exc)  # retention took it just now
        except (NetError, ProtocolError) as exc:
            return str(exc)
        if header is None:
            return -1
        return header.max_timestamp if self._wall_ms is None else min(header.max_timestamp, self._wall_ms())

    async def _offsets(
        self, keys: dict[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, OffsetAt], dict[TopicPartition, str]]:
        if not keys:
            return {}, {}
        topics: dict[str, dict[int, int]] = {}
        for (topic, index), spec in keys.items():
            topics.setdefault(topic, {})[index] = spec
        try:
            return await list_offsets(self._cluster, topics, timeout_s=_TIMEOUT_S), {}
        except PartitionErrors as exc:
            return exc.partial, {key: f"ListOffsets: {error_name(code)}" for key, code in exc.errors.items()}
        except NetError as exc:
            return {}, dict.fromkeys(keys, f"ListOffsets: {exc}")

    async def _bounds(self, key: TopicPartition, start: int, end: int) -> LogBounds | str:
        start = min(start, end)
        if not self._tails or start >= end:
            return LogBounds(start, end, None)
        try:
            header = await batch_at(self._cluster, *key, end - 1, timeout_s=_TIMEOUT_S)
        except BrokerError as exc:
            if exc.code == ErrorCode.OFFSET_OUT_OF_RANGE:  # retention took it just now
                return LogBounds(start, end, None)
            return str(exc)
        except (NetError, ProtocolError) as exc:
            return str(exc)
        return LogBounds(start, end, None if header is None else LogTail.of(header))
