"""Rotation, the budget, and a load that fails."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import cast

from bench.errors import BenchError
from bench.lab import Lab
from bench.loads.load import Load, Turn
from bench.rounds import Runner, rotated
from bench.stats import Samples


class FakeLab:
    """A lab without anything in it."""

    def __init__(self, *, budget_s: float = 1000.0, warm_up: bool = False) -> None:
        self.profile = type("Profile", (), {"rounds": 3, "budget_s": budget_s, "warm_up": warm_up})()


class Numbers(Load):
    """Writes down who had a turn, and at which size."""

    name = "numbers"
    title = "numbers"
    warms_up = True

    def __init__(self, fails: str = "") -> None:
        self.seen: list[tuple[str, float]] = []
        self.finished = False
        self._fails = fails

    def turns(self, lab: Lab) -> Mapping[str, Turn]:
        return {name: self._turn(name) for name in "abc"}

    def finish(self, lab: Lab) -> None:
        self.finished = True

    def _turn(self, name: str) -> Turn:
        def turn(scale: float) -> dict[str, float]:
            if name == self._fails:
                raise BenchError("broken")
            self.seen.append((name, scale))
            return {"value": 1.0}

        return turn


def run(*loads: Load, lab: FakeLab, began: float) -> tuple[Samples, dict[str, str]]:
    samples, failures = Samples(), dict[str, str]()
    Runner(cast("Lab", lab), samples, failures, lambda _: None, began).run(loads)
    return samples, failures


def test_another_contestant_is_first_in_each_round() -> None:
    assert [rotated(["a", "b", "c"], by) for by in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


def test_every_contestant_has_a_turn_in_every_round() -> None:
    load = Numbers()
    samples, failures = run(load, lab=FakeLab(), began=time.monotonic())
    assert "".join(name for name, _ in load.seen) == "abcbcacab"
    assert not failures
    assert samples.values("numbers", "b", "value") == [1.0] * 3


def test_a_warm_up_is_small_and_does_not_count() -> None:
    load = Numbers()
    samples, _ = run(load, lab=FakeLab(warm_up=True), began=time.monotonic())
    assert [scale < 1 for _, scale in load.seen] == [True] * 3 + [False] * 9
    assert len(samples.all) == 9


def test_when_the_time_is_up_one_round_is_made_nevertheless() -> None:
    load = Numbers()
    run(load, lab=FakeLab(budget_s=1.0), began=time.monotonic() - 100)
    assert len(load.seen) == 3


def test_a_load_that_fails_is_named_and_cleaned_up_and_the_next_one_runs() -> None:
    broken, whole = Numbers(fails="b"), Numbers()
    _, failures = run(broken, whole, lab=FakeLab(), began=time.monotonic())
    assert failures == {"numbers": "broken"}
    assert broken.finished
    assert len(whole.seen) == 9
