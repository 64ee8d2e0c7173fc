"""

How many small requests travel at a time, for what was measured of those before.
"""

from __future__ import annotations

import random

import pytest

from gateway.mirror.partition.rules.throttle import ALONE_EVERY_S, FEWEST, MOST, Depth, Throttle


def test_no_limit() -> None:
    throttle = Throttle(0, 0.0)
    throttle.spend(10**12)
    assert throttle.wait_s(0.0) == 0.0
    assert throttle.limit(8_000_000) == 8_000_000


def test_a_debt_is_waited_for() -> None:
    throttle = Throttle(1_000_000, 0.0)
    throttle.spend(500_000)
    assert throttle.wait_s(0.0) == pytest.approx(0.5)
    assert throttle.wait_s(0.4) == pytest.approx(0.1)
    assert throttle.wait_s(0.6) == 0.0


@pytest.mark.parametrize("size", [10_000, 100_000, 1_000_000])
def test_the_rate_over_time(size: int) -> None:
    throttle, now, total = Throttle(1_000_000, 0.0), 0.0, 0
    while now < 20.0:
        now += max(throttle.wait_s(now), 0.001)
        if throttle.wait_s(now) == 0.0:
            throttle.spend(size)
            total += size
    assert total / now == pytest.approx(1_000_000, rel=0.1)


def test_idle_time_is_not_saved_up() -> None:
    throttle = Throttle(1_000_000, 0.0)
    assert throttle.wait_s(3600.0) == 0.0
    throttle.spend(1_250_000)
    assert throttle.wait_s(3600.0) == pytest.approx(1.0)


def test_fetches_are_made_smaller() -> None:
    assert Throttle(1_000_000, 0.0).limit(8_000_000) == 250_000
    assert Throttle(1_000, 0.0).limit(8_000_000) == 65_536


def test_another_limit_counts_from_now_on() -> None:
    throttle = Throttle(1_000, 0.0)
    throttle.spend(60_000)
    assert throttle.wait_s(0.0) == pytest.approx(60.0)
    throttle.change(10_000, 0.0)
    assert throttle.wait_s(0.0) == 0.0, "what was owed by the former limit would hold the mirror up for a minute"
    throttle.spend(20_000)
    assert throttle.wait_s(0.0) == pytest.approx(2.0)
    throttle.change(0, 0.0)
    assert throttle.wait_s(0.0) == 0.0


def test_whoever_waits_as_long_as_told_may_go_on_then() -> None:
    """What rounding leaves of a debt is no time that a clock could measure."""
    dice = random.Random(2019)
    for _ in range(2_000):
        now = dice.uniform(0.0, 1e7)
        throttle = Throttle(dice.randrange(1, 10**8), now)
        throttle.spend(dice.randrange(1, 10**8))
        assert throttle.wait_s(now + throttle.wait_s(now)) == 0.0


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
