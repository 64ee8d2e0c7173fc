"""Tests wait for a condition: what it came to, its deadline, and how often it is looked at."""

from __future__ import annotations

import itertools

import pytest

from tests.support.waiting import pause_s, wait_until, wait_until_async
from tests.unit.support.conftest import Clock


def test_what_the_condition_came_to(clock: Clock) -> None:
    values = itertools.chain([0, ""], itertools.repeat("there"))
    assert wait_until(lambda: next(values)) == "there"
    assert clock.now == pytest.approx(0.04)


def test_a_deadline_names_what_was_waited_for(clock: Clock) -> None:
    with pytest.raises(AssertionError, match=r"a leader did not come true within 3 s; last value: False"):
        wait_until(clock.look, 3, what="a leader")
    assert 3 <= clock.now < 3.2


def test_what_takes_long_is_looked_at_less_often(clock: Clock) -> None:
    with pytest.raises(AssertionError):
        wait_until(clock.look, 30)
    assert clock.looks < 400
    assert pause_s(0) == 0.02
    assert pause_s(1) == 0.05
    assert pause_s(60) == 0.1


async def test_on_an_event_loop_by_its_clock() -> None:
    values = iter([None, 5])

    async def condition() -> int | None:
        return next(values)

    assert await wait_until_async(condition) == 5
    with pytest.raises(AssertionError, match=r"within 0\.05 s; last value: ''"):
        await wait_until_async(lambda: "", 0.05)
