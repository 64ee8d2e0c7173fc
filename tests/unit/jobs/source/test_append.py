"""A task's partitions append as the live engine's do: by the same appender, small batches merged, several partitions in
a request, and as many requests at a time.

A breakpoint behind records that the source has deleted is written when the loss is told, not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.jobs.lost_records import LostRange, TellLost, notify_immediately
from gateway.jobs.source.append import BehindLosses, PartitionAppend
from gateway.jobs.source.clusters import Clusters
from gateway.jobs.source.mirrors import MirrorSpec
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.rules.codec import PartitionKey
from gateway.mirror.offset_map.rules.ledger import OffsetLedger
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.mirror.partition.appender import MAX_IN_FLIGHT, Appender
from gateway.mirror.partition.log_reader import LogBounds
from gateway.mirror.partition.rules.append_window import MERGED_BYTES
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.mirror.partition.rules.translator import PlannedBreakpoints
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import PartitionStart
from gateway.transport.tasks import Tasks
from protocol.batch.header import iter_batches
from protocol.batch.record_reader import read_records
from protocol.produce import PartitionResult, build_response_body, scan_request
from tests.support.mirror.source_log import Given, v2_batch
from tests.support.waiting import wait_until_async

VERSION = 9
PARTITIONS = 3
BATCHES = 400
MIRROR = MirrorSpec(
    source_topic="t",
    mirror_topic="t",
    producer_id=mirror_producer_id(1, 2),
    starts=(PartitionStart(0, 0),) * PARTITIONS,
)


class Target:
    """A cluster with one broker, which answers each request a turn of the loop after the one before."""

    write_paused = False
    rest = SimpleNamespace(active=False)
    close_reason = ""

    def __init__(self) -> None:
        self.config = SimpleNamespace(
            reconnect_backoff_s=(0.001, 0.002), retry_backoff_s=(0.001, 0.002), request_timeout_s=30.0
        )
        self.rng = lambda: 0.5
        self.on_view: list[Any] = []
        self.requests: list[dict[int, bytes]] = []  # of each partition its batch
        self.may_append = True
        self.waiting = 0
        self.most_waiting = 0
        self.acks = set[int]()

    def leader(self, topic: str, partition: int) -> int:
        return 1

    def invalidate(self, topic: str) -> None:
        """Its leaders are known."""

    def cached_connection(self, node: int, lane: str) -> Target:
        return self

    def version(self, key: int, cap: int) -> int:
        return min(VERSION, cap)

    def send(self, key: int, version: int, pieces: Sequence[Any], on_response: Any) -> None:
        body = b"".join(bytes(piece) for piece in pieces)
        view = scan_request(body, VERSION)
        self.acks.add(view.acks)
        self.requests.append({index: body[start:end] for _, index, start, end in view.parts})
        bases = {
            index: int.from_bytes(data[53:57], "big") for index, data in self.requests[-1].items()
        }  # base sequence
        results = [PartitionResult("t", index, 0, base, -1, 0, None) for index, base in bases.items()]
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        asyncio.get_running_loop().call_later(0.001 * self.waiting, self._answer, on_response, results)

    def _answer(self, on_response: Callable[[memoryview], None], results: list[PartitionResult]) -> None:
        self.waiting -= 1
        on_response(memoryview(build_response_body(VERSION, results)))


class EmptyLogs:
    """The target's, where nothing is yet."""

    def ask(self, partition: TopicPartition, delay_s: float, answer: Callable[[LogBounds], None]) -> None:
        asyncio.get_running_loop().call_soon(answer, LogBounds(0, 0, None))


@pytest.fixture
async def clusters() -> AsyncIterator[Clusters]:
    tasks = Tasks()
    target: Any = Target()
    logs: Any = EmptyLogs()
    yield Clusters(target, None, logs, None, tasks, {}, {}, lambda: target.may_append)
    await tasks.close()


def small_batches(partition: int) -> memoryview:
    """Of one record each."""
    return memoryview(
        b"".join(
            v2_batch([Given(at, 1_000 + at, b"k", b"%d of %d" % (at, partition))], base=at) for at in range(BATCHES)
        )
    )


async def copy(clusters: Clusters, partition: int) -> PartitionAppend:
    append = PartitionAppend(MIRROR, partition, 0, clusters)
    await append.begin()
    await append.append(small_batches(partition), BATCHES)
    await append.finish()
    append.close()
    return append


async def test_small_batches_go_as_few_and_several_partitions_in_a_request(clusters: Clusters) -> None:
    target: Any = clusters.target
    target.may_append = False  # until all of them have something
    copying = [
        asyncio.create_task(copy(clusters, partition), name=f"copy {partition}") for partition in range(PARTITIONS)
    ]
    await wait_until_async(lambda: sum(len(each._ready) for each in clusters.appenders.values()) == PARTITIONS, 5)
    target.may_append = True
    clusters.pump()
    copied = await asyncio.gather(*copying)
    assert [append.position for append in copied] == [BATCHES] * PARTITIONS
    appends = [data for request in target.requests for data in request.values()]
    assert len(appends) < PARTITIONS * 20, "400 batches of each partition wait, and are merged"
    assert max(map(len, appends)) <= MERGED_BYTES
    assert max(map(len, target.requests)) == PARTITIONS
    assert all(append.runner.mirror.window.merged > BATCHES / 2 for append in copied)
    assert target.acks == {-1}
    assert target.most_waiting <= MAX_IN_FLIGHT


async def test_what_is_merged_is_what_was_read(clusters: Clusters) -> None:
    await copy(clusters, 1)
    target: Any = clusters.target
    found = [
        record
        for request in target.requests
        for header, batch in iter_batches(memoryview(request[1]))
        for record in read_records(header, batch)
    ]
    assert [record.value for record in found] == [b"%d of 1" % at for at in range(BATCHES)]
    assert [record.timestamp_ms for record in found] == [1_000 + at for at in range(BATCHES)]


async def test_it_is_the_engines_appender_one_for_a_broker(clusters: Clusters) -> None:
    await asyncio.gather(*(copy(clusters, partition) for partition in range(PARTITIONS)))
    assert [(node, type(appender)) for node, appender in clusters.appenders.items()] == [(1, Appender)]


class Maps:
    """Of a link. Notes what is written; it is durable at once."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    def ledger(self, of: PartitionKey, implied: Breakpoint) -> OffsetLedger:
        return OffsetLedger(of, implied, lambda: 1)

    async def decide(self, *_: object) -> None:
        """There are no breakpoints yet."""

    def append(self, changes: Sequence[Any], done: Callable[[], None], error: object) -> None:
        self.written += changes
        done()


class Logs:
    """Of one cluster."""

    def __init__(self, bounds: LogBounds) -> None:
        self._bounds = bounds

    def ask(self, partition: TopicPartition, delay_s: float, answer: Callable[[LogBounds], None]) -> None:
        asyncio.get_running_loop().call_soon(answer, self._bounds)


async def test_what_the_source_deleted_is_told_before_the_map_says_that_it_is_passed() -> None:
    """The next attempt would begin behind it, and know of nothing."""
    tasks, maps, untold = Tasks(), Maps(), list[tuple[LostRange, Callable[[], None]]]()
    target: Any = Target()
    target_logs: Any = Logs(LogBounds(0, 100, LogTail(99, 100, MIRROR.producer_id, 99, None)))
    source_logs: Any = Logs(LogBounds(200, 900, None))
    source: Any = object()
    link_maps: Any = {"west": maps}
    tell: TellLost = lambda lost, told: untold.append((lost, told))  # noqa: E731
    clusters = Clusters(target, source, target_logs, source_logs, tasks, {}, link_maps, lambda: True, tell)
    mirror = replace(MIRROR, link="west", mirror_id=2, implied=((0, 0),) * PARTITIONS, skip_deleted=True)
    append = PartitionAppend(mirror, 0, 0, clusters)
    await append.begin()
    assert append.fetch_offset == 200
    assert [lost for lost, _ in untold] == append.lost == [LostRange("t", 0, 100, 200)]
    assert maps.written == []
    untold[0][1]()
    assert len(maps.written) == 1
    append.close()
    await tasks.close()


LOST = LostRange("t", 0, 100, 200)


class MapTopic:
    """Notes what is written."""

    def __init__(self) -> None:
        self.written: list[int] = []

    def write_breakpoints(self, runner: Any, planned: PlannedBreakpoints) -> None:
        self.written.append(planned.up_to)


def runner(run: int = 1, *, ended: bool = False) -> Any:
    return SimpleNamespace(mirror=SimpleNamespace(translator=SimpleNamespace(run=run), ended=ended))


def scene() -> tuple[BehindLosses, MapTopic, list[Callable[[], None]]]:
    maps, told = MapTopic(), list[Callable[[], None]]()
    return BehindLosses(maps, lambda _, done: told.append(done)), maps, told  # type: ignore[arg-type]


def test_breakpoints_wait_for_all_losses() -> None:
    behind, maps, told = scene()
    one = runner()
    behind.write_breakpoints(one, PlannedBreakpoints((), 1, 1))
    behind.lost(one, LOST)
    behind.write_breakpoints(one, PlannedBreakpoints((), 2, 1))
    behind.lost(one, LOST)
    told[0]()
    behind.write_breakpoints(one, PlannedBreakpoints((), 3, 1))
    assert maps.written == [1]
    told[1]()
    assert maps.written == [1, 2, 3]
    behind.write_breakpoints(one, PlannedBreakpoints((), 4, 1))
    assert maps.written[-1] == 4


def test_what_was_planned_before_an_unknown_outcome_is_not_written() -> None:
    behind, maps, told = scene()
    behind.lost(runner(), LOST)
    behind.write_breakpoints(runner(), PlannedBreakpoints((), 1, 0))
    told[0]()
    assert maps.written == []


def test_who_has_ended_writes_nothing() -> None:
    behind, maps, told = scene()
    behind.lost(runner(ended=True), LOST)
    behind.write_breakpoints(runner(), PlannedBreakpoints((), 1, 1))
    told[0]()
    assert maps.written == []


def test_where_nobody_counts_nothing_waits() -> None:
    maps = MapTopic()
    behind = BehindLosses(maps, notify_immediately)  # type: ignore[arg-type]
    behind.lost(runner(), LOST)
    behind.write_breakpoints(runner(), PlannedBreakpoints((), 1, 1))
    assert maps.written == [1]
