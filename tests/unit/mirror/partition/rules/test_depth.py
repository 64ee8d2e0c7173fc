"""How many small requests travel at a time, for what was measured of those before."""

from __future__ import annotations

import pytest

from gateway.mirror.partition.rules.depth import ALONE_EVERY_S, FEWEST, MOST, Depth


def measured(alone_s: float, served_s: float, *, since: float = 100.0) -> tuple[Depth, float]:
    """One that travelled alone, then ten of which each stood behind the one before; and the time."""
    depth, now = Depth(), since
    depth.answered(now, now + alone_s, alone=True)
    now += alone_s
    for _ in range(10):
        depth.answered(now - served_s / 2, now + served_s, alone=False)
        now += served_s
    return depth, now


def test_before_anything_was_measured_it_is_the_most() -> None:
    depth = Depth()
    assert depth.most(0.0) == MOST
    depth.answered(1.0, 1.005, alone=True)
    assert depth.most(1.1) == MOST  # whether the broker works them off one after the other is not known


@pytest.mark.parametrize(
    ("alone_s", "served_s", "most"),
    [
        (0.0055, 0.005, 2),  # at hand: the round trip is the broker's own work
        (0.001, 0.005, FEWEST),
        (0.012, 0.005, 3),
        (0.017, 0.005, 4),
        (0.025, 0.005, MOST),
        (0.100, 0.002, MOST),
        (0.0, 0.0, FEWEST),
    ],
)
def test_what_the_broker_works_off_in_a_round_trip_and_one_that_waits(
    alone_s: float, served_s: float, most: int
) -> None:
    depth, now = measured(alone_s, max(served_s, 1e-9))
    assert depth.most(now) == most


def test_now_and_then_one_goes_alone() -> None:
    depth, _ = measured(0.0055, 0.005)
    later = 100.0055 + ALONE_EVERY_S
    assert depth.most(later - 0.001) == 2
    assert depth.most(later) == 1
    depth.answered(later, later + 0.0255, alone=True)  # the target has moved away meanwhile
    assert depth.most(later + 0.03) == MOST


def test_one_slow_answer_is_no_measure() -> None:
    depth, now = measured(0.0255, 0.005)
    depth.answered(now - 0.001, now + 0.015, alone=False)
    assert depth.most(now + 0.02) == MOST
    for _ in range(20):  # but if all are
        now += 0.015
        depth.answered(now - 0.001, now + 0.015, alone=False)
    assert depth.most(now) == 3


def test_who_did_not_stand_behind_another_says_nothing_of_the_brokers_work() -> None:
    depth, now = measured(0.0055, 0.005)
    for _ in range(50):  # sent while another one travelled that was answered before this one came there
        now += 1.0 / 100
        depth.answered(now, now + 0.001, alone=False)
    assert depth.most(now) == 2
