"""Whose write pause it was that a journal tells of."""

from __future__ import annotations

import pytest

from gateway.migration.carry_out import PausesSeen


class Clock:
    now = 10.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_topics_of_one_link_are_promoted_side_by_side(clock: Clock) -> None:
    """By another migration, or by hand: the journal had the other one's pause, or none when that was given up last."""
    seen = PausesSeen(clock)
    seen.ended("l", ["orders", "payments"], "stopped", 0.041)
    clock.now = 11.0
    seen.ended("l", ["other"], "stopped", 3.0)
    seen.ended("l", ["given-up"], "aborted", 5.0)
    seen.ended("m", ["orders"], "stopped", 7.0)
    assert seen.since("l", ["orders", "payments"], 9.0) == 41
    assert seen.since("l", ["other"], 9.0) == 3000
    assert seen.since("l", ["given-up"], 9.0) == -1


def test_none_of_before_of_another_set_or_of_a_mirror_that_is_gone(clock: Clock) -> None:
    seen = PausesSeen(clock)
    seen.ended("l", ["orders"], "stopped", 0.041)
    assert seen.since("l", ["orders"], 10.5) == -1
    assert seen.since("l", ["orders", "payments"], 9.0) == -1
    seen.ended("l", ["payments"], "stopped", 0.05)
    assert seen.since("l", ["orders", "payments"], 9.0) == -1
    seen.forget("l", "orders")
    assert seen.since("l", ["orders"], 9.0) == -1


def test_the_last_pause_of_a_topic_is_told_however_it_ended() -> None:
    clock = [100.0]
    seen = PausesSeen(lambda: clock[0])
    assert seen.last("l", "orders") is None
    seen.ended("l", ["orders"], "aborted", 0.041)
    clock[0] = 104.0
    assert seen.last("l", "orders") == (4.0, 0.041)
