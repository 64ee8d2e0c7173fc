"""Records from one place of a log, shortened: what is shown of which, and what is not opened."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest

from gateway.kafka.connection.errors import BrokerError
from gateway.kafka.logs import log_excerpt
from gateway.kafka.logs.log_excerpt import RecordExcerpt, Shortened, read_excerpt
from gateway.kafka.logs.range_reader import BatchChunk
from gateway.kafka.offsets import EARLIEST
from protocol.batch.header import CONTROL, HEADER_BYTES, read_batch_header
from protocol.errors import ErrorCode
from tests.support.mirror.source_log import Given, v2_batch


def chunk(*batches: bytes) -> BatchChunk:
    headers = [read_batch_header(each) for each in batches]
    bounds = [0, *accumulate(map(len, batches))]
    return BatchChunk(headers, [False] * len(batches), bounds, memoryview(b"".join(batches)))


class Log:
    """A partition of 100 records in batches of ten, whose first `gone` are deleted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gone: int = 0) -> None:
        self.gone, self.asked = gone, list[tuple[int, int]]()
        self.cluster: Any = self
        self.config: Any = self
        self.api_timeout_s = 1.0
        monkeypatch.setattr(log_excerpt, "list_offsets", self._offsets)
        monkeypatch.setattr(log_excerpt, "RangeReader", self._reader)

    async def _offsets(self, _: object, asked: dict[str, dict[int, int]]) -> dict[tuple[str, int], Any]:
        at = asked["t"][0]
        return {("t", 0): _Offset(self.gone if at == EARLIEST else 100)}

    def _reader(self, *given: Any, **_: Any) -> _Reader:
        self.asked.append(given[3:5])
        return _Reader(*self.asked[-1])


class _Offset:
    def __init__(self, offset: int) -> None:
        self.offset = offset


class _Reader:
    def __init__(self, start: int, end: int) -> None:
        self._left = list(range(start // 10 * 10, end, 10))

    async def next(self) -> BatchChunk | None:
        if not self._left:
            return None
        base = self._left.pop(0)
        return chunk(v2_batch([Given(at, 5, b"k", b"%d" % at) for at in range(base, base + 10)]))


async def test_the_records_from_an_offset_on(monkeypatch):
    log = Log(monkeypatch)
    found = await read_excerpt(log.cluster, "t", 0, 7, 5, 64)
    assert (found.start, found.end, log.asked) == (0, 100, [(7, 100)])
    assert [(one.offset, one.value) for one in found.records] == [
        (at, Shortened(len(b"%d" % at), b"%d" % at)) for at in range(7, 12)
    ]


async def test_without_an_offset_the_last_ones(monkeypatch):
    found = await read_excerpt(Log(monkeypatch).cluster, "t", 0, None, 3, 64)
    assert [one.offset for one in found.records] == [97, 98, 99]


async def test_what_retention_took_is_not_waited_for(monkeypatch):
    log = Log(monkeypatch, gone=95)
    assert [one.offset for one in (await read_excerpt(log.cluster, "t", 0, 3, 9, 64)).records] == [95, 96, 97, 98, 99]

    async def out_of_range(_: object) -> None:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, "gone")

    monkeypatch.setattr(_Reader, "next", out_of_range)
    assert (await read_excerpt(log.cluster, "t", 0, 3, 9, 64)).records == []


async def test_no_more_is_read_than_the_bound(monkeypatch):
    """A log of one small record in each large batch, say: the excerpt ends early."""
    monkeypatch.setattr(log_excerpt, "_READ_BYTES", 1)
    found = await read_excerpt(Log(monkeypatch).cluster, "t", 0, 0, 50, 64)
    assert len(found.records) == 10


def test_long_ones_are_cut_and_null_is_null():
    batch = v2_batch([Given(0, 5, None, b"x" * 100), Given(1, 6, b"k", None)])
    first, second = log_excerpt._opened(chunk(batch), range(10), 10, 8)
    assert (first.key, first.value, first.timestamp_ms) == (None, Shortened(100, b"x" * 8), 5)
    assert (second.key, second.value) == (Shortened(1, b"k"), None)


@pytest.mark.parametrize(
    "other", [Given(0, 5, b"kv", b""), Given(0, 5, b"k", b"w"), Given(0, 5, None, b"kv"), Given(0, 5, b"k", None)]
)
def test_two_records_are_compared_whole(other: Given):
    (one,), (same,), (another,) = (
        log_excerpt._opened(chunk(v2_batch([each])), range(10), 10, 0)
        for each in (Given(0, 5, b"k", b"v"), Given(0, 9, b"k", b"v"), other)
    )
    assert one.crc == same.crc != another.crc


def test_what_cannot_be_opened_says_so_and_the_others_are_shown(monkeypatch):
    good = v2_batch([Given(2, 5, b"k", b"v")])
    bad = bytearray(v2_batch([Given(0, 5, b"k", b"v")]))
    bad[HEADER_BYTES] ^= 0x7F  # the length of its record
    bomb = v2_batch([Given(1, 5, b"k", b"v" * 1_000)], codec=1)
    monkeypatch.setattr(log_excerpt, "_INFLATED", 500)
    first, second, third = log_excerpt._opened(chunk(bytes(bad), bomb, good), range(10), 10, 8)
    assert first.note.startswith("not opened: the batch at offset 0")
    assert (second.offset, second.note[:11], second.value) == (1, "not opened:", None)
    assert (third.offset, third.note) == (2, "")


def test_a_marker_of_a_transaction_shows_nothing():
    found = chunk(v2_batch([Given(3, 5, b"k", b"v")], attributes=CONTROL))
    (one,) = log_excerpt._opened(found, range(10), 10, 8)
    assert one == RecordExcerpt(3, 5, None, None, 0, 0, "a control batch: it ends a transaction")
