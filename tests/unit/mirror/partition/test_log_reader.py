"""Log bounds of many partitions at once, and where the last minutes of a log begin."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.kafka.offsets import EARLIEST, LATEST, OffsetAt
from gateway.mirror.partition import log_reader
from gateway.mirror.partition.log_reader import LogBounds, LogReader
from gateway.mirror.partition.rules.fetch_cursor import WARM_UP_MS
from gateway.transport.tasks import Tasks
from protocol.batch.header import read_batch_header
from protocol.errors import ErrorCode
from tests.support.mirror.batches import make_batch

NOW, KEY = 10_000_000_000, ("t", 0)


class Logs:
    """A cluster with one log that goes from 5 to 100; its last batch has `last`."""

    def __init__(self) -> None:
        self.last: int | Exception = NOW - 1000
        self.by_time = 40
        self.asked: list[int] = []

    async def list_offsets(self, cluster: Any, wanted: Any, **_: Any) -> dict[tuple[str, int], OffsetAt]:
        ((topic, specs),) = wanted.items()
        ((index, spec),) = specs.items()
        self.asked.append(spec)
        return {(topic, index): OffsetAt({LATEST: 100, EARLIEST: 5}.get(spec, self.by_time), -1, 0)}

    async def batch_at(self, cluster: Any, topic: str, partition: int, offset: int, **_: Any) -> Any:
        assert offset == 99
        if isinstance(self.last, Exception):
            raise self.last
        return read_batch_header(make_batch(90, 10, timestamp_ms=self.last))


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Logs:
    made = Logs()
    monkeypatch.setattr(log_reader, "list_offsets", made.list_offsets)
    monkeypatch.setattr(log_reader, "batch_at", made.batch_at)
    return made


async def bounds(*, recent: bool) -> LogBounds | str:
    tasks = Tasks()
    cluster: Any = None
    reader = LogReader(cluster, tasks, tails=False, wall_ms=lambda: NOW)
    found: asyncio.Future[LogBounds | str] = asyncio.get_running_loop().create_future()
    reader.ask(KEY, 0.0, found.set_result, recent=recent)
    try:
        async with asyncio.timeout(5):
            return await found
    finally:
        await tasks.close()


async def test_the_last_minutes_are_counted_from_the_last_batch(logs: Logs) -> None:
    """Not from the gateway's clock, which may be ahead: the log's time is the producers'."""
    logs.last = NOW - 3_600_000
    assert await bounds(recent=True) == LogBounds(5, 100, None, 40)
    assert logs.asked[-1] == NOW - 3_600_000 - WARM_UP_MS


async def test_a_batch_from_the_future_counts_as_one_of_now(logs: Logs) -> None:
    logs.last = NOW + 10**9
    await bounds(recent=True)
    assert logs.asked[-1] == NOW - WARM_UP_MS


async def test_it_is_asked_for_only_when_a_mirror_begins(logs: Logs) -> None:
    assert await bounds(recent=False) == LogBounds(5, 100, None)
    assert len(logs.asked) == 2


@pytest.mark.parametrize("last", [-1, BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, "gone")], ids=["none", "retention"])
async def test_a_log_that_does_not_say_is_no_error(logs: Logs, last: int | Exception) -> None:
    logs.last = last
    assert await bounds(recent=True) == LogBounds(5, 100, None, None)


async def test_a_cluster_that_does_not_answer_is_one(logs: Logs) -> None:
    logs.last = ClusterUnavailable("no answer")
    assert await bounds(recent=True) == "no answer"
