"""When workers are started again."""

from __future__ import annotations

import pytest

from gateway.runtime.workers.rules.restarts import FIRST_S, MOST_S, STEADY_S, Restarts


def running(count: int = 2) -> Restarts:
    rules = Restarts(count)
    for index in rules.due(0.0):
        rules.started(index, 0.0)
        rules.serves(index)
    return rules


def test_all_are_started_at_once() -> None:
    rules = Restarts(3)
    assert rules.due(0.0) == [0, 1, 2]
    assert rules.wait_s(0.0) == 0.0
    for index in range(3):
        rules.started(index, 0.0)
    assert (rules.due(9.0), rules.wait_s(9.0), rules.exit_code) == ([], None, None)


@pytest.mark.parametrize("code", [-9, 0, 1])
def test_one_that_ends_is_started_again_after_a_moment(code: int) -> None:
    rules = running()
    assert rules.ended(1, code, served=True, now=5.0) == FIRST_S
    assert (rules.due(5.0), rules.wait_s(5.0)) == ([], FIRST_S)
    assert rules.due(5.0 + FIRST_S) == [1]
    rules.started(1, 5.0 + FIRST_S)
    assert (rules.wait_s(9.0), rules.exit_code) == (None, None)


def test_one_that_ends_again_and_again_is_started_less_and_less_often() -> None:
    rules, now, waits = running(), 0.0, []
    for _ in range(7):
        wait_s = rules.ended(1, 1, served=False, now=now)
        assert wait_s is not None
        waits.append(wait_s)
        now += wait_s
        rules.started(1, now)
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, MOST_S, MOST_S]
    assert rules.ended(1, -9, served=True, now=now + STEADY_S) == FIRST_S


@pytest.mark.parametrize("served", [True, False])
def test_an_end_before_all_have_served_is_the_end_of_the_gateway(*, served: bool) -> None:
    rules = Restarts(2)
    for index in range(2):
        rules.started(index, 0.0)
    assert rules.ended(0, 1, served=served, now=1.0) is None
    assert (rules.stopping, rules.exit_code) == (True, None)
    assert rules.ended(1, 0, served=True, now=2.0) is None
    assert rules.exit_code == 1


@pytest.mark.parametrize(("codes", "expected"), [((0, 0), 0), ((0, 1), 1), ((-9, 0), 1)])
def test_a_gateway_that_is_stopped_ends_when_all_have_ended(codes: tuple[int, int], expected: int) -> None:
    rules = running()
    rules.stop()
    for index, code in enumerate(codes):
        assert rules.exit_code is None
        assert rules.ended(index, code, served=True, now=1.0) is None
    assert (rules.due(100.0), rules.exit_code) == ([], expected)


def test_one_that_was_to_be_started_again_is_not_when_the_gateway_stops() -> None:
    rules = running()
    rules.ended(0, 1, served=True, now=1.0)
    rules.stop()
    assert (rules.due(100.0), rules.wait_s(100.0)) == ([], None)
    rules.ended(1, 0, served=True, now=2.0)
    assert rules.exit_code == 0
