"""The pool alone: connections are opened by a function of the test."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import AuthenticationFailed, ClusterUnavailable
from gateway.kafka.connection.pool import Pool
from tests.support.brokers.quick_clusters import quick
from tests.support.waiting import wait_until_async


class Line:
    """A connection that does nothing."""

    def __init__(self) -> None:
        self.host, self.port = "h", 1
        self.closed = False
        self.on_closed: list[object] = []
        self.retires = False
        self.taken_back = False

    def retire(self, _reason: str) -> None:
        self.retires = True

    def take_back(self, reason: str) -> None:
        self.taken_back = True
        self.close(reason)

    def close(self, _reason: str = "") -> None:
        if not self.closed:
            self.closed = True
            for callback in self.on_closed:
                callback(self)  # type: ignore[operator]


class Lab:
    """A pool for nodes 1 and 2. `fail` is what opening raises, `gate` holds it up."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []
        self.fail: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.troubles = 0
        self.on_trouble: Callable[[], None] = lambda: None
        self.nodes = {1: ("one", 1), 2: ("two", 2)}
        self.pool = Pool(quick("a:1"), self.nodes.get, self._open, self._trouble, rng=lambda: 0.5)

    async def _open(self, host: str, port: int) -> Connection:
        self.opened.append((host, port))
        await self.gate.wait()
        if self.fail is not None:
            raise self.fail
        return cast(Connection, Line())

    def _trouble(self) -> None:
        self.troubles += 1
        self.on_trouble()

    async def get(self, node: int = 1, lane: int | str = 0, within_s: float = 5.0) -> Connection:
        return await self.pool.connection(node, lane, asyncio.get_running_loop().time() + within_s)


@pytest.fixture
async def lab() -> Lab:
    return Lab()


async def test_one_attempt_serves_all_who_wait(lab: Lab) -> None:
    found = await asyncio.gather(*(lab.get() for _ in range(5)))

    assert len(set(map(id, found))) == 1
    assert lab.opened == [("one", 1)]
    assert lab.pool.get(1, 0) is found[0]


async def test_lanes_and_nodes_are_apart(lab: Lab) -> None:
    found = [await lab.get(1, 0), await lab.get(1, "control"), await lab.get(2, 0)]

    assert len(set(map(id, found))) == 3
    assert [(node, lane) for node, lane, _ in lab.pool.open_connections()] == [(1, 0), (1, "control"), (2, 0)]


async def test_a_lost_connection_is_opened_again(lab: Lab) -> None:
    first = await lab.get()
    first.close()

    assert lab.pool.get(1, 0) is None
    assert lab.troubles == 1
    assert await lab.get() is not first


async def test_connections_that_break_at_once_are_opened_with_backoff(lab: Lab) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + 0.3
    while loop.time() < end:
        (await lab.get()).close()

    assert 5 <= len(lab.opened) <= 30


async def test_the_pool_forgets_a_connection_before_others_hear_that_it_closed(lab: Lab) -> None:
    seen: list[Connection | None] = []
    connection = await lab.get()
    connection.on_closed.append(lambda _: seen.append(lab.pool.get(1, 0)))
    connection.close()

    assert seen == [None]


async def test_it_goes_on_trying_until_the_deadline_and_gives_the_reason(lab: Lab) -> None:
    lab.fail = ClusterUnavailable("h:1: connection refused")

    with pytest.raises(ClusterUnavailable, match=r"^h:1: connection refused$"):
        await lab.get(within_s=0.2)

    assert 4 <= len(lab.opened) <= 25
    assert lab.troubles == len(lab.opened)
    assert lab.pool.last_error == "h:1: connection refused"
    lab.fail = None
    await lab.get()
    assert lab.pool.last_error == ""


async def test_a_broker_that_moved_is_tried_at_its_new_address(lab: Lab) -> None:
    lab.fail = ClusterUnavailable("gone")
    task = asyncio.create_task(lab.get(), name="get")
    while len(lab.opened) < 2:
        await asyncio.wait((task,), timeout=0.01)
    lab.nodes[1], lab.fail = ("elsewhere", 9), None
    await task

    assert lab.opened[-1] == ("elsewhere", 9)


async def test_refused_credentials_are_not_tried_again_and_again(lab: Lab) -> None:
    lab.fail = AuthenticationFailed("no")

    for _ in range(3):
        with pytest.raises(AuthenticationFailed, match="no"):
            await lab.get()

    assert len(lab.opened) <= 2


async def test_a_refusal_is_told_on_a_busy_machine(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waited for the refused attempt hears of it, though the time to try again has come by then."""
    loop = asyncio.get_running_loop()
    late_s = 0.0
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + late_s, raising=False)
    lab.fail = AuthenticationFailed("no")

    def trouble() -> None:
        nonlocal late_s
        late_s = 1.0

    lab.on_trouble = trouble
    with pytest.raises(AuthenticationFailed, match="no"):
        await lab.get()
    assert len(lab.opened) == 1


async def test_an_attempt_that_hangs_does_not_hold_the_caller(lab: Lab) -> None:
    lab.gate.clear()

    with pytest.raises(ClusterUnavailable, match="no connection in time"):
        await lab.get(within_s=0.05)
    lab.gate.set()

    assert await lab.get() is lab.pool.get(1, 0)
    assert len(lab.opened) == 1


async def test_an_unexpected_error_is_an_error_for_those_who_wait(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.fail = RuntimeError("a bug")

    with pytest.raises(ClusterUnavailable, match="a bug"):
        await lab.get(within_s=0.05)
    assert "a bug" in caplog.text


async def test_a_node_outside_the_cluster(lab: Lab) -> None:
    with pytest.raises(ClusterUnavailable, match="broker 3 is not in the cluster"):
        await lab.get(3)


async def test_nodes_that_left_are_forgotten_with_their_errors(lab: Lab) -> None:
    lab.fail = ClusterUnavailable("down")
    with pytest.raises(ClusterUnavailable):
        await lab.get(within_s=0.02)
    del lab.nodes[1]
    lab.pool.forget_missing()

    assert lab.pool.last_error == ""


async def test_closing_ends_connections_attempts_and_waiting(lab: Lab) -> None:
    kept = await lab.get(2)
    lab.gate.clear()
    waiting = asyncio.create_task(lab.get(1), name="waiting")
    await asyncio.wait((waiting,), timeout=0.01)
    await lab.pool.close()

    with pytest.raises(ClusterUnavailable, match="closed"):
        await waiting
    assert kept.closed
    assert lab.troubles == 0


async def test_by_another_configuration_the_next_connection_waits_for_what_is_in_flight(lab: Lab) -> None:
    former = cast(Line, await lab.get())
    lab.pool.reconfigure(quick("b:1"), "changed")
    assert former.retires
    assert not former.closed
    assert lab.pool.get(1, 0) is None, "nothing is sent on it any more"

    waiting = asyncio.create_task(lab.get(), name="get")
    with pytest.raises(ClusterUnavailable, match="still in flight on the former connection"):
        await lab.get(within_s=0.05)
    assert lab.opened == [("one", 1)]
    former.close()  # all is answered

    assert cast(Line, await waiting) is not former
    assert lab.opened == [("one", 1)] * 2
    assert lab.troubles == 0, "nothing was wrong"


async def test_a_connection_that_retires_is_dropped_with_its_lane(lab: Lab) -> None:
    former = cast(Line, await lab.get(lane="produce-1"))
    lab.pool.reconfigure(quick("b:1"), "changed")
    lab.pool.drop(("produce",), "the lease is over")
    assert former.closed


async def test_what_is_dropped_is_taken_back(lab: Lab) -> None:
    """The kernel would send on what it has, whenever the way is free again."""
    dropped, kept = [cast(Line, await lab.get(lane=lane)) for lane in ("mirror-append", "control")]
    lab.pool.drop(("mirror-append",), "the lease is over")
    assert (dropped.taken_back, kept.taken_back, kept.closed) == (True, False, False)


async def test_what_was_refused_before_is_tried_at_once_by_another_configuration(lab: Lab) -> None:
    lab.fail = AuthenticationFailed("no")
    for _ in range(3):
        with pytest.raises(AuthenticationFailed, match="no"):
            await lab.get()
    lab.fail = None
    lab.pool.reconfigure(quick("b:1"), "changed")
    await lab.get(within_s=0.05)


async def test_an_attempt_of_before_does_not_count(lab: Lab) -> None:
    lab.gate.clear()
    waiting = asyncio.create_task(lab.get(), name="get")
    await wait_until_async(lambda: bool(lab.opened))
    lab.pool.reconfigure(quick("b:1"), "changed")
    lab.gate.set()
    await waiting
    assert len(lab.opened) == 2
