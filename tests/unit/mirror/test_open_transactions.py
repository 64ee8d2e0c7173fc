"""Which transaction a partition waits for is told after a while, once, and taken back when it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.mirror import open_transactions
from gateway.mirror.open_transactions import OpenTransactions
from gateway.net.errors import ClusterUnavailable, UnsupportedVersion
from gateway.net.producers import OpenTransaction


@dataclass(eq=False)
class Partition:
    held_up_at: int = -1
    source_topic: str = "t"
    partition: int = 0
    waits_for: str = ""


class Origin:
    """What the watch asks, and how often it did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[set[tuple[str, int]]] = []
        self.error: Exception | None = None
        self.tasks: list[Coroutine[Any, Any, None]] = []
        monkeypatch.setattr(open_transactions, "open_transactions", self._transactions)
        monkeypatch.setattr(open_transactions, "batch_at", self._batch)

    async def _transactions(self, _: object, wanted: set[tuple[str, int]], **__: object) -> dict[Any, Any]:
        self.asked.append(wanted)
        if self.error is not None:
            raise self.error
        return dict.fromkeys(wanted, (OpenTransaction(7, 0, 3), OpenTransaction(8, 0, 50)))

    async def _batch(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(max_timestamp=1_785_585_600_000)

    def spawn(self, work: Coroutine[Any, Any, None], _: str) -> None:
        asyncio.run(work)


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> Origin:
    return Origin(monkeypatch)


@pytest.fixture
def watch(origin: Origin) -> OpenTransactions:
    return OpenTransactions(origin, origin)  # type: ignore[arg-type]


def test_it_is_told_after_a_while(watch: OpenTransactions, origin: Origin) -> None:
    held, free = Partition(50), Partition()
    for now in (0.0, 4.0):
        watch.tick([held, free], now)
    assert not held.waits_for
    watch.tick([held, free], 5.0)
    assert held.waits_for == "waiting for transaction of producer id 8 since 2026-08-01T12:00:00Z (first offset 50)"
    assert not free.waits_for
    watch.tick([held, free], 6.0)
    assert origin.asked == [{("t", 0)}]


def test_the_next_one_begins_anew(watch: OpenTransactions) -> None:
    held = Partition(3)
    for now in (0.0, 5.0):
        watch.tick([held], now)
    assert "producer id 7" in held.waits_for
    held.held_up_at = 50
    watch.tick([held], 6.0)
    assert not held.waits_for
    held.held_up_at = -1
    watch.tick([held], 20.0)
    assert not held.waits_for


def test_a_source_that_cannot_tell(watch: OpenTransactions, origin: Origin) -> None:
    origin.error = UnsupportedVersion("DescribeProducers")
    held = Partition(50)
    for now in (0.0, 5.0):
        watch.tick([held], now)
    assert held.waits_for == "waiting for an open transaction since 2026-08-01T12:00:00Z (first offset 50)"


def test_a_source_that_does_not_answer_is_asked_again_later(watch: OpenTransactions, origin: Origin) -> None:
    origin.error = ClusterUnavailable("no")
    held = Partition(50)
    for now in (0.0, 5.0, 6.0, 34.0, 36.0):
        watch.tick([held], now)
    assert len(origin.asked) == 2
    assert not held.waits_for
