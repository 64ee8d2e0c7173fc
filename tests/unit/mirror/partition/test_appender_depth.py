"""The shipped appender in virtual time, before a broker that works off one request after the other: how late records
are, and how many requests it takes."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

from gateway.mirror.partition.appender import Appender
from gateway.mirror.partition.rules.append_window import Append
from gateway.mirror.partition.rules.throttle import MOST, Depth
from protocol.produce import PartitionResult, build_response_body, scan_request

VERSION = 9
PARTITIONS = 24
SERVED_S = 0.005
"""How long a request is with the broker: a round of replication, however many partitions it has."""
FETCH_S = 0.001
SECONDS = 8.0


class Time:
    """What is to happen, in its order."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, when: float, what: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (when, self._number, what))

    def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.now, _, what = heapq.heappop(self._queue)
            what()


class Partition:
    """Its records come one by one, in batches of one."""

    def __init__(self, index: int, time: Time) -> None:
        self.key = ("t", index)
        self.time = time
        self.waiting: deque[float] = deque()  # when each came
        self.flying: deque[float] = deque()
        self.late: list[float] = []

    @property
    def has_more(self) -> bool:
        return bool(self.waiting)

    def take(self) -> Append | None:
        if not self.waiting or len(self.flying) >= MOST:
            return None
        self.flying.append(self.waiting.popleft())
        return Append(0, b"x" * 170)

    def append_answered(self, base: int, code: int, landed_at: int, message: str, repeated: bool = False) -> None:
        self.late.append(self.time.now - self.flying.popleft())

    def append_unknown(self, message: str) -> None:
        raise AssertionError(message)

    def target_unreachable(self, message: str) -> None:
        raise AssertionError(message)


class Connection:
    """To a broker that is `away_s` of round trip away."""

    write_paused = False
    rest = SimpleNamespace(active=False)

    def __init__(self, time: Time, away_s: float) -> None:
        self.time = time
        self.away_s = away_s
        self.done_at = 0.0
        self.requests = 0

    def version(self, key: int, cap: int) -> int:
        return min(VERSION, cap)

    def send(self, key: int, version: int, pieces: Sequence[Any], on_response: Any) -> None:
        parts = scan_request(b"".join(bytes(piece) for piece in pieces), VERSION).parts
        self.requests += 1
        self.done_at = max(self.done_at, self.time.now + self.away_s / 2) + SERVED_S
        body = build_response_body(VERSION, [PartitionResult(part[0], part[1], 0, 0, -1, 0, None) for part in parts])
        self.time.at(self.done_at + self.away_s / 2, lambda: on_response(memoryview(body)))


class Course(NamedTuple):
    """`late_ms`: the median."""

    late_ms: float
    records: int
    requests: int


def course(away_s: float, rate: float) -> Course:
    """Records come at `rate` a second, each to any partition."""
    time, dice = Time(), Random(7)
    connection = Connection(time, away_s)
    cluster: Any = SimpleNamespace(
        config=SimpleNamespace(reconnect_backoff_s=(1.0, 2.0), request_timeout_s=30.0),
        rng=lambda: 0.5,
        cached_connection=lambda node, lane: connection,
    )
    appender = Appender(cluster, 1, SimpleNamespace(), clock=lambda: time.now)  # type: ignore[arg-type]
    partitions = [Partition(index, time) for index in range(PARTITIONS)]
    fetched: list[tuple[Partition, float]] = []

    def come() -> None:
        fetched.append((dice.choice(partitions), time.now))
        time.at(time.now + dice.expovariate(rate), come)

    def fetch() -> None:
        for partition, at in fetched:
            partition.waiting.append(at)
            appender.ready(partition)
        fetched.clear()
        appender.pump()
        time.at(time.now + FETCH_S, fetch)

    come()
    fetch()
    time.run(SECONDS)
    late = sorted(late for partition in partitions for late in partition.late)
    return Course(late[len(late) // 2] * 1e3, len(late), connection.requests)


def five(monkeypatch: Any, away_s: float, rate: float) -> Course:
    """The same with five always."""
    with monkeypatch.context() as patched:
        patched.setattr(Depth, "most", lambda depth, now: MOST)
        return course(away_s, rate)


def test_a_broker_at_hand_is_not_sent_what_only_stands_before_it(monkeypatch: Any) -> None:
    for rate in (600.0, 2_000.0):
        shipped, before = course(0.0005, rate), five(monkeypatch, 0.0005, rate)
        assert shipped.late_ms < 0.55 * before.late_ms, (shipped, before)
        assert shipped.records > 0.98 * before.records
        assert shipped.requests <= 1.02 * before.requests


def test_a_far_one_is_kept_busy_as_before(monkeypatch: Any) -> None:
    shipped, before = course(0.020, 600.0), five(monkeypatch, 0.020, 600.0)
    assert shipped.late_ms < 1.1 * before.late_ms, (shipped, before)
    assert shipped.records > 0.98 * before.records


def test_where_nothing_stands_behind_another_nothing_changes(monkeypatch: Any) -> None:
    shipped, before = course(0.0005, 40.0), five(monkeypatch, 0.0005, 40.0)
    assert abs(shipped.late_ms - before.late_ms) < 1.0
    assert abs(shipped.requests - before.requests) <= 0.05 * before.requests
