import random

import pytest

from gateway.mirror.partition.rules.throttle import Throttle


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
