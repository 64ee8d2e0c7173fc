"""Handshakes: so many a second of an address, a share of a core for all, and the oldest goes for one too many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from gateway.proxy.rules.handshakes import AROUND_S, SHARE, UNDER_WAY, Handshakes
from gateway.proxy.rules.loop_shares import SLICE_S, LoopShares
from tests.support.proxy.limits import limits_with


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Begun:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def test_so_many_a_second_of_an_address() -> None:
    clock = Clock()
    handshakes = Handshakes(limits_with(), clock)
    assert [handshakes.refusal("10.0.0.1") for _ in range(101)] == [""] * 100 + ["handshakes"]
    assert handshakes.refusal("10.0.0.2") == ""
    clock.now += 1
    assert [handshakes.refusal("10.0.0.1") for _ in range(51)] == [""] * 50 + ["handshakes"]


@pytest.mark.parametrize(("cost_ms", "per_second"), [(0.1, 416), (0.67, 213), (3.8, 58)])
def test_all_of_them_take_a_quarter_of_a_core(cost_ms: float, per_second: int) -> None:
    clock = Clock()
    handshakes = Handshakes(limits_with(), clock)
    handshakes.cost(cost_ms / 1_000)
    handshakes.cost(0.000_1)  # another listener's is cheaper
    begun = 0
    for second in range(20):
        clock.now += 1
        begun += sum(not handshakes.refusal(f"10.{second}.{at >> 8}.{at & 255}") for at in range(1_500))
    assert begun == pytest.approx(21 * per_second, rel=0.02)
    assert begun * (cost_ms / 1_000 + AROUND_S) <= 21 * SHARE * 1.01


def test_the_oldest_is_ended_for_one_too_many() -> None:
    handshakes = Handshakes(limits_with(), Clock())
    all_of_them = [Begun() for _ in range(UNDER_WAY + 1)]
    for each in all_of_them[:-1]:
        handshakes.begins(each)
    handshakes.ended(all_of_them[0])
    handshakes.begins(all_of_them[0])
    handshakes.begins(all_of_them[-1])
    assert [each.cancelled for each in all_of_them] == [False, True] + [False] * (UNDER_WAY - 1)
    assert handshakes.under_way == UNDER_WAY
    for each in all_of_them:
        handshakes.ended(each)
    assert handshakes.under_way == 0


def test_at_the_highest_rate_each_has_a_second() -> None:
    assert Handshakes(limits_with(), Clock()).per_second <= UNDER_WAY


def test_addresses_take_turns_in_the_slice_of_all() -> None:
    handshakes = Handshakes(limits_with(handshakes_per_second=5), Clock())
    begun: list[str] = []

    def flood(at: int) -> bool:
        return handshakes.wait(f"10.0.0.{at}", lambda: begun.append(f"flood {at}"))

    taken = [flood(at) for at in range(10) for _ in range(12)]
    assert taken.count(False) == 20  # as many wait as may come at once
    assert handshakes.wait("10.0.1.1", lambda: begun.append("honest"))
    for _ in range(11):
        handshakes.begin_next()
    assert "honest" in begun
    for _ in range(90):
        handshakes.begin_next()
    assert [begun.count(f"flood {at}") for at in range(10)] == [10] * 10


def test_ten_addresses_take_no_more_of_a_turn_than_one() -> None:
    clock, turns = Clock(), list[Callable[[], None]]()
    shares = LoopShares(clock, turns.append, lambda _seconds, _go_on: None)
    share = shares.of("TLS handshakes")
    handshakes = Handshakes(limits_with(), clock)
    begun: list[int] = []
    for at in range(10):
        handshakes.wait(f"10.0.0.{at}", partial(begun.append, at))
        shares.pace(share, SLICE_S / 2, handshakes.begin_next)
    assert begun == [0, 1]
    turns.pop()()
    assert begun == [0, 1, 2, 3]
