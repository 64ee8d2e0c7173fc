"""A job that the gateway does not hear ends before the engine begins; whatever else it is waiting for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from inspect import signature

import pytest

from gateway.fleet.rules.leases import CATCH_UP_LEASE_S
from gateway.jobs import heartbeat as module
from gateway.jobs.errors import JobFailed
from gateway.jobs.heartbeat import Heartbeat
from gateway.transport.host import boot_clock


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def made(beat: Callable[[], bool]) -> tuple[Heartbeat, Time, list[str]]:
    clock, ended = Time(), []
    found = Heartbeat(beat, clock=clock)
    found.lost = lambda: ended.append("lost")
    return found, clock, ended


def test_it_ends_before_the_lease_does() -> None:
    answers: Iterator[bool] = iter([True, False, False, False])
    found, clock, ended = made(lambda: next(answers))
    for seconds in (2, 4, 11):
        clock.now = 100 + seconds
        found.step()
        found.check()
    clock.now = 100 + 2 + CATCH_UP_LEASE_S - 4
    found.step()
    assert ended == ["lost"]
    with pytest.raises(JobFailed, match="has not answered for 11 s"):
        found.check()


def test_a_heartbeat_counts_from_when_it_was_sent() -> None:
    clock = Time()

    def slow() -> bool:
        clock.now += 14
        return True

    found = Heartbeat(slow, clock=clock)
    found.step()
    with pytest.raises(JobFailed, match="not answered for 14 s"):
        found.check()


def test_a_driver_that_slept_asks_for_no_new_lease() -> None:
    """The gateway would give it one, and the engine has appended meanwhile."""
    heartbeats: list[int] = []
    found, clock, ended = made(lambda: not heartbeats.append(1))  # type: ignore[func-returns-value]
    clock.now += 600
    found.step()
    assert (heartbeats, ended) == ([], ["lost"])
    with pytest.raises(JobFailed, match="not answered for 600 s"):
        found.check()
    assert signature(Heartbeat).parameters["clock"].default is boot_clock, "the other ones stand still meanwhile"


def test_a_refusal_ends_it_at_once() -> None:
    def refuse() -> bool:
        raise JobFailed("the gateway refuses: it is STOPPED")

    found, _, ended = made(refuse)
    found.step()
    found.step()
    assert ended == ["lost"]
    with pytest.raises(JobFailed, match="it is STOPPED"):
        found.check()


def test_it_heartbeats_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nobody calls anything: a look at the logs that waits for a leader is no silence."""
    monkeypatch.setattr(module, "EVERY_S", 0.001)
    enough = threading.Event()
    heartbeats: list[int] = []

    def beat() -> bool:
        heartbeats.append(1)
        if len(heartbeats) == 5:
            enough.set()
        return True

    found = Heartbeat(beat)
    found.start()
    assert enough.wait(10)
    found.stop()
    found.check()
    count = len(heartbeats)
    assert len(heartbeats) == count
