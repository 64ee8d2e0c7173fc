"""The append lane of one broker: what a request carries, how many travel, and what each partition is told after."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.kafka.connection.errors import ClusterUnavailable, ConnectionClosed
from gateway.kafka.connection.quota_rest import QuotaRest
from gateway.mirror.partition.appender import LANE, MAX_IN_FLIGHT, Appender
from gateway.mirror.partition.rules.append_window import Append
from gateway.transport.tasks import Tasks
from protocol.errors import ErrorCode
from protocol.produce import PartitionResult, build_response_body, scan_request
from tests.support.proxy.conversation import LaneClock
from tests.support.waiting import wait_until_async

VERSION = 9
NODE = 3


class Partition:
    """Hands out its batches in order, and notes what it is told."""

    def __init__(self, index: int, *batches: bytes) -> None:
        self.key = ("t", index)
        self.left = deque(Append(base, data) for base, data in enumerate(batches))
        self.told: list[tuple[object, ...]] = []

    @property
    def has_more(self) -> bool:
        return bool(self.left)

    def take(self) -> Append | None:
        return self.left.popleft() if self.left else None

    def append_answered(self, base: int, code: int, landed_at: int, message: str, repeated: bool = False) -> None:
        self.told.append((base, code, landed_at, message, repeated))

    def append_unknown(self, message: str) -> None:
        self.told.append(("unknown", message))

    def target_unreachable(self, message: str) -> None:
        self.told.append(("unreachable", message))


class Connection:
    """Keeps what is sent until it is answered."""

    def __init__(self) -> None:
        self.write_paused = False
        self.close_reason = ""
        self.lane_clock = LaneClock()
        self.rest = QuotaRest(cast("Any", self.lane_clock), lambda: len(self.waiting))
        self.bodies: list[bytes] = []
        self.waiting: deque[Callable[[memoryview | None], None]] = deque()
        self._writable: list[Callable[[], None]] = []

    def version(self, key: int, cap: int) -> int:
        return min(VERSION, cap)

    def send(self, key: int, version: int, pieces: Sequence[Any], on_response: Any) -> None:
        if self.close_reason:
            raise ConnectionClosed(self.close_reason)
        self.bodies.append(b"".join(bytes(piece) for piece in pieces))
        self.waiting.append(on_response)

    def when_writable(self, callback: Callable[[], None]) -> None:
        self._writable.append(callback)

    def writable(self) -> None:
        self.write_paused = False
        for callback in self._writable:
            callback()
        self._writable.clear()

    def close(self, reason: str) -> None:
        self.close_reason = reason

    def answer(self, *results: PartitionResult) -> None:
        self.waiting.popleft()(memoryview(build_response_body(VERSION, results)))

    def carried(self) -> list[list[tuple[str, int, bytes]]]:
        """Of each request (topic, partition, records)."""
        views = [(body, scan_request(body, VERSION)) for body in self.bodies]
        return [[(part[0], part[1], body[part[2] : part[3]]) for part in view.parts] for body, view in views]


class Target:
    """A cluster with one broker. `connection` is None until somebody has connected."""

    def __init__(self) -> None:
        self.config = SimpleNamespace(reconnect_backoff_s=(0.001, 0.002), request_timeout_s=30.0)
        self.rng = lambda: 0.5
        self.open: Connection | None = Connection()
        self.refuses = 0
        self.lanes: list[tuple[int, str]] = []
        self.invalidated: list[str] = []

    def cached_connection(self, node: int, lane: str) -> Connection | None:
        return self.open

    async def connection(self, node: int, lane: str) -> Connection:
        self.lanes.append((node, lane))
        if self.refuses:
            self.refuses -= 1
            raise ClusterUnavailable("connection refused")
        self.open = Connection()
        return self.open

    def invalidate(self, topic: str) -> None:
        self.invalidated.append(topic)


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    made = Tasks()
    yield made
    await made.close()


def lane(target: Any, tasks: Tasks, *partitions: Partition, may_append: Callable[[], bool] = lambda: True) -> Appender:
    appender = Appender(target, NODE, tasks, may_append)
    for partition in partitions:
        appender.ready(partition)
    appender.pump()
    return appender


def good(partition: int, at: int, *, append_time_ms: int = -1) -> PartitionResult:
    return PartitionResult("t", partition, 0, at, append_time_ms, 0, None)


async def test_a_request_carries_one_batch_of_each_partition(target: Target, tasks: Tasks) -> None:
    lane(target, tasks, Partition(0, b"a0", b"a1"), Partition(1, b"b0"))
    assert target.open is not None
    assert target.open.carried() == [[("t", 0, b"a0"), ("t", 1, b"b0")], [("t", 0, b"a1")]]
    view = scan_request(target.open.bodies[0], VERSION)
    assert (view.transactional_id, view.acks, view.timeout_ms) == (None, -1, 15_000)


async def test_a_new_header_goes_before_the_rest_of_its_batch(target: Target, tasks: Tasks) -> None:
    partition = Partition(0)
    partition.left.append(Append(7, b"rest", b"stamp:"))
    lane(target, tasks, partition)
    assert target.open is not None
    assert target.open.carried() == [[("t", 0, b"stamp:rest")]]


async def test_five_requests_travel_and_the_next_goes_with_an_answer(target: Target, tasks: Tasks) -> None:
    partition = Partition(0, *(b"%d" % at for at in range(MAX_IN_FLIGHT + 1)))
    lane(target, tasks, partition)
    connection = target.open
    assert connection is not None
    assert len(connection.bodies) == MAX_IN_FLIGHT
    connection.answer(good(0, 0))
    assert connection.carried()[-1] == [("t", 0, b"5")]
    assert partition.told == [(0, 0, 0, "", False)]


async def test_each_partition_is_told_what_became_of_its_batch(target: Target, tasks: Tasks) -> None:
    one, two = Partition(0, b"a"), Partition(1, b"b")
    lane(target, tasks, one, two)
    assert target.open is not None
    refused = PartitionResult("t", 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, -1, -1, "a gap")
    target.open.answer(good(0, 40, append_time_ms=5), refused)
    assert one.told == [(0, 0, 40, "", True)]
    assert two.told == [(0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, "a gap", False)]


async def test_what_an_answer_leaves_out_is_of_unknown_outcome(target: Target, tasks: Tasks) -> None:
    one, two = Partition(0, b"a"), Partition(1, b"b")
    lane(target, tasks, one, two)
    assert target.open is not None
    target.open.answer(good(0, 0))
    assert [told[0] for told in two.told] == ["unknown"]
    assert one.told == [(0, 0, 0, "", False)]


async def test_without_an_answer_the_outcome_is_unknown(target: Target, tasks: Tasks) -> None:
    partition = Partition(0, b"a")
    lane(target, tasks, partition)
    assert target.open is not None
    target.open.close_reason = "reset"
    target.open.waiting.popleft()(None)
    assert partition.told == [("unknown", "no answer from target broker 3: reset")]


async def test_a_malformed_answer_closes_the_connection(target: Target, tasks: Tasks) -> None:
    partition = Partition(0, b"a")
    lane(target, tasks, partition)
    assert target.open is not None
    target.open.waiting.popleft()(memoryview(b"\xff\xff"))
    assert "a malformed Produce response" in target.open.close_reason
    assert [told[0] for told in partition.told] == ["unknown"]


async def test_what_cannot_be_sent_is_of_unknown_outcome_and_counts_no_more(target: Target, tasks: Tasks) -> None:
    partition = Partition(0, *(b"%d" % at for at in range(MAX_IN_FLIGHT + 2)))
    assert target.open is not None
    target.open.close_reason = "gone"
    lane(target, tasks, partition)
    assert partition.told == [("unknown", "target broker 3: gone")] * (MAX_IN_FLIGHT + 2)


async def test_nothing_leaves_without_leave(target: Target, tasks: Tasks) -> None:
    leave, partition = [False], Partition(0, b"a")
    appender = lane(target, tasks, partition, may_append=lambda: leave[0])
    assert target.open is not None
    assert not target.open.bodies
    leave[0] = True
    appender.pump()
    assert target.open.carried() == [[("t", 0, b"a")]]


async def test_who_has_another_leader_is_left_out(target: Target, tasks: Tasks) -> None:
    one, two = Partition(0, b"a"), Partition(1, b"b")
    appender = Appender(target, NODE, tasks)  # type: ignore[arg-type]
    for partition in (one, two):
        appender.ready(partition)
    appender.discard(one)
    appender.pump()
    assert target.open is not None
    assert target.open.carried() == [[("t", 1, b"b")]]


async def test_a_connection_that_is_full_is_waited_for(target: Target, tasks: Tasks) -> None:
    partition = Partition(0, b"a")
    assert target.open is not None
    target.open.write_paused = True
    appender = lane(target, tasks, partition)
    appender.pump()
    assert not target.open.bodies
    target.open.writable()
    assert target.open.carried() == [[("t", 0, b"a")]]


async def test_a_broker_out_of_reach_is_told_and_tried_again(target: Target, tasks: Tasks) -> None:
    partition = Partition(0, b"a")
    target.open, target.refuses = None, 2
    lane(target, tasks, partition)
    await wait_until_async(lambda: not partition.left, 5)
    assert partition.told == [("unreachable", "connection refused")] * 2
    assert target.lanes == [(NODE, LANE)] * 3
    assert target.invalidated == ["t", "t"]  # another broker may lead by now


async def test_a_broker_that_throttles_is_sent_nothing_meanwhile(target: Target, tasks: Tasks) -> None:
    """It would read nothing: what is queued stays in the mirror, which can be stopped and asked."""
    partition = Partition(0, b"a", b"b", b"c")
    assert target.open is not None
    connection = target.open
    appender = lane(target, tasks, partition)
    appender.pump()
    connection.lane_clock.passes(1)
    sent = len(connection.bodies)
    while connection.waiting:
        answer = build_response_body(VERSION, [PartitionResult("t", 0, 0, len(partition.told))], throttle_ms=2_000)
        connection.waiting.popleft()(memoryview(answer))
    partition.left.append(Append(3, b"d"))
    appender.ready(partition)
    appender.pump()
    assert len(connection.bodies) == sent
    assert partition.left
    connection.lane_clock.passes(2)
    assert len(connection.bodies) == sent + 1
    assert appender.throttled_s == 2.0 * sent
