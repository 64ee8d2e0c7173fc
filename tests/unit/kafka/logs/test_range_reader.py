"""An empty answer proves nothing: what is no record any more is told by the batch after it."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.kafka.cluster import ClusterUnavailable
from gateway.kafka.connection.errors import LogTruncated
from gateway.kafka.logs import range_reader
from gateway.kafka.logs.range_reader import RangeReader
from protocol.errors import ErrorCode
from protocol.fetch import FetchedPartition, FetchPartition, FetchResponseView
from tests.support.mirror.source_log import Given, v2_batch

END = 100


class Broker:
    """Answers each fetch with what `log` says of (offset, read_committed); notes what it was asked."""

    def __init__(self, log: Callable[[int, bool], bytes], *, stable: int = END, end: int = END) -> None:
        self.log = log
        self.stable, self.end = stable, end
        self.asked: list[tuple[int, bool]] = []
        self.epochs: list[int] = []  # of the batch before, as it was told
        self.diverging: tuple[int, int] | None = None  # once it was told one
        self.led_in, self.told, self.fences = 7, list[int](), list[int]()
        self.closed, self.close_reason = False, ""
        self.config = SimpleNamespace(retry_backoff_s=(0.001, 0.002))
        self.rng = random.Random(1).random

    def leader(self, topic: str, partition: int) -> int:
        return 1

    def leader_epoch(self, topic: str, partition: int) -> int:
        return self.led_in

    async def connection(self, node: int, lane: str, timeout_s: float) -> Broker:
        return self

    def invalidate(self, topic: str) -> None:
        self.led_in += 1

    def version(self, *_: object) -> int:
        return 12

    def send(self, api: int, version: int, parts: tuple[Any, ...], answered: Callable[[Any], None]) -> None:
        ((wanted, committed),) = parts
        self.asked.append((wanted.offset, committed))
        self.epochs.append(wanted.last_epoch)
        self.told.append(wanted.leader_epoch)
        answered(self.log(wanted.offset, committed))

    def scan(self, body: bytes, version: int) -> FetchResponseView:
        diverging = self.diverging if self.epochs[-1] >= 0 else None
        code = self.fences.pop(0) if self.fences else 0
        part = FetchedPartition("t", 0, code, self.end, self.stable, 0, diverging, None, (), -1, memoryview(body))
        return FetchResponseView(0, 0, 0, [part])


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RangeReader]:
    def made(broker: Broker, start: int, end: int, **more: Any) -> RangeReader:
        def body(_: int, topics: dict[str, list[FetchPartition]], *, read_committed: bool, **__: object) -> object:
            return topics["t"][0], read_committed

        monkeypatch.setattr(range_reader, "build_request_body", body)
        monkeypatch.setattr(range_reader, "scan_response", broker.scan)
        return RangeReader(broker, "t", 0, start, end, patience_s=0.05, **more)  # type: ignore[arg-type]

    return made


def batch(base: int) -> bytes:
    return v2_batch([Given(base, 0, None, b"v")])


@pytest.mark.parametrize("read_committed", [True, False])
async def test_a_broker_that_sends_nothing_is_not_believed(reader, read_committed):
    one = reader(Broker(lambda offset, committed: b"", stable=1_000_000, end=1_000_000), 0, 1_000_000)
    with pytest.raises(ClusterUnavailable, match=r"t-0 at offset 0: .* the broker sends nothing of it"):
        await one.next()
    assert one.position == 0


async def test_records_that_come_late_are_not_lost(reader):
    answers = iter([b"", b"", batch(0), batch(END - 1)])
    one = reader(Broker(lambda offset, committed: next(answers)), 0, END)
    assert (await one.next()).headers[0].base_offset == 0
    assert (await one.next()).headers[0].base_offset == END - 1
    assert await one.next() is None


async def test_a_gap_up_to_the_end_of_a_range_is_told_by_the_batch_behind_it(reader):
    broker = Broker(lambda offset, committed: batch(END + 5), end=END + 6, stable=END + 6)
    one = reader(broker, 10, END)
    assert await one.next() is None
    assert one.position == END


async def test_a_gap_up_to_the_last_stable_offset(reader):
    """The batch behind it is of a transaction that is open: read_committed does not show it."""
    broker = Broker(lambda offset, committed: b"" if committed else batch(END), end=END + 1, stable=END)
    one = reader(broker, 10, END)
    assert await one.next() is None
    assert (10, False) in broker.asked


@pytest.mark.parametrize("checked", [True, False])
async def test_a_log_that_was_cut_and_written_anew_is_not_read_on(reader, checked):
    """An unclean election: the fetch at the old position succeeds, in another history."""
    broker = Broker(lambda offset, committed: batch(offset))
    one = reader(broker, 0, END, last_epoch=-1, checked=checked)
    assert (await one.next()).headers[-1].base_offset == 0
    broker.diverging = 3, 7
    with pytest.raises(LogTruncated, match=r"t-0 at offset 1: the log was truncated: leader epoch 3 ends at offset 7"):
        await one.next()


async def test_the_epoch_before_the_start_is_told(reader):
    broker = Broker(lambda offset, committed: batch(offset))
    await reader(broker, 5, END, last_epoch=4).next()
    assert broker.epochs[0] == 4


async def test_who_reads_some_log_is_not_held_to_what_it_was(reader):
    broker = Broker(lambda offset, committed: batch(offset))
    one = reader(broker, 0, END)
    await one.next()
    await one.next()
    assert set(broker.epochs) == {-1}


@pytest.mark.parametrize("fence", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH])
async def test_the_leader_is_told_in_which_epoch_it_is_believed_to_lead(reader, fence):
    """Whoever was replaced without hearing of it gave what it had as the log."""
    broker = Broker(lambda offset, committed: batch(offset))
    broker.fences = [fence, fence]
    found = await reader(broker, END - 1, END).next()
    assert found.headers[0].base_offset == END - 1
    assert broker.told == [7, 8, 9], "asked again with newer metadata each time"


async def test_a_leader_that_is_fenced_for_ever_is_given_up(reader):
    broker = Broker(lambda offset, committed: batch(offset))
    broker.fences = [ErrorCode.UNKNOWN_LEADER_EPOCH] * 10_000
    with pytest.raises(ClusterUnavailable, match="UNKNOWN_LEADER_EPOCH"):
        await reader(broker, 0, END).next()
