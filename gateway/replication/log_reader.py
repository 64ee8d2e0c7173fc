"""Reads log starts and ends, for many partitions at once when many ask at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from gateway.domain.log_tail import LogTail
from gateway.net.cluster import BrokerError, Cluster, NetError, PartitionErrors
from gateway.net.offsets import EARLIEST, LATEST, OffsetAt, list_offsets
from gateway.net.routed import Partition
from gateway.replication.start import batch_at
from gateway.replication.tasks import Tasks
from protocol.errors import ErrorCode, ProtocolError, error_name

_TIMEOUT_S = 4.0
_GATHER_S = 0.002


class LogBounds(NamedTuple):
    """Log start, log end (high watermark), and the last batch before the end when it was asked for."""

    start: int
    end: int
    tail: LogTail | None


Answer = Callable[[LogBounds | str], None]
"""Gets the bounds, or why they could not be read."""


class LogReader:
    """Args: the cluster, whether to read the last batch too, and where to run the requests."""

    __slots__ = ("_cluster", "_tails", "_tasks", "_wanted")

    def __init__(self, cluster: Cluster, tasks: Tasks, *, tails: bool) -> None:
        self._cluster = cluster
        self._tasks = tasks
        self._tails = tails
        self._wanted: dict[Partition, list[Answer]] = {}

    def ask(self, partition: Partition, delay_s: float, answer: Answer) -> None:
        """Read a partition's bounds after `delay_s` seconds and call `answer`, always once."""
        asyncio.get_running_loop().call_later(delay_s, self._want, partition, answer)

    def _want(self, partition: Partition, answer: Answer) -> None:
        if not self._wanted:
            asyncio.get_running_loop().call_later(_GATHER_S, self._flush)
        self._wanted.setdefault(partition, []).append(answer)

    def _flush(self) -> None:
        wanted, self._wanted = self._wanted, {}
        self._tasks.spawn(self._read(wanted), "mirror log bounds")

    async def _read(self, wanted: dict[Partition, list[Answer]]) -> None:
        # The end first: a log start read later can only be higher, never a start beyond the end that is used.
        ends, errors = await self._offsets(list(wanted), LATEST)
        starts, more = await self._offsets(list(ends), EARLIEST)
        errors |= more
        found = {key: (starts[key].offset, ends[key].offset) for key in starts}
        outcomes = await asyncio.gather(*(self._bounds(key, *bounds) for key, bounds in found.items()))
        for key, outcome in (*zip(found, outcomes, strict=True), *errors.items()):
            for answer in wanted[key]:
                answer(outcome)

    async def _offsets(
        self, keys: list[Partition], spec: int
    ) -> tuple[dict[Partition, OffsetAt], dict[Partition, str]]:
        if not keys:
            return {}, {}
        topics: dict[str, dict[int, int]] = {}
        for topic, index in keys:
            topics.setdefault(topic, {})[index] = spec
        try:
            return await list_offsets(self._cluster, topics, timeout_s=_TIMEOUT_S), {}
        except PartitionErrors as exc:
            return exc.partial, {key: f"ListOffsets: {error_name(code)}" for key, code in exc.errors.items()}
        except NetError as exc:
            return {}, dict.fromkeys(keys, f"ListOffsets: {exc}")

    async def _bounds(self, key: Partition, start: int, end: int) -> LogBounds | str:
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
