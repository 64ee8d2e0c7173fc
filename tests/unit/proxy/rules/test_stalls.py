"""Whose requests waited under a write pause, and for how long."""

from __future__ import annotations

from gateway.cutover.write_pause.interface import Stall
from gateway.proxy.rules.stalls import StallsSeen


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_stall_runs_from_the_first_request_to_the_last_that_was_let_go() -> None:
    clock = Clock()
    seen = StallsSeen(clock)
    refused = seen.began("orders", 3, "app", "10.0.0.7")
    clock.now += 8
    refused()
    again = seen.began("orders", 3, "app", "10.0.0.7")
    other = seen.began("orders", 3, "job", "10.0.0.8")
    clock.now += 1
    assert set(seen.of("orders", 3)) == {Stall("app", "10.0.0.7", 9.0), Stall("job", "10.0.0.8", 1.0)}
    again()
    other()
    clock.now += 50
    assert set(seen.of("orders", 3)) == {Stall("app", "10.0.0.7", 9.0), Stall("job", "10.0.0.8", 1.0)}


def test_pauses_are_told_apart_and_what_is_no_pause_is_not_noted() -> None:
    seen = StallsSeen(Clock())
    seen.began("orders", 3, "app", "a")()
    seen.began("orders", None, "app", "a")()
    assert [seen.of("orders", 4), seen.of("payments", 3)] == [[], []]
    assert len(seen.of("orders", 3)) == 1


def test_who_came_first_is_forgotten_first() -> None:
    seen = StallsSeen(Clock(), most=2)
    for client in ("one", "two", "three"):
        seen.began("orders", 3, client, "a")
    assert [stall.client_id for stall in seen.of("orders", 3)] == ["two", "three"]
