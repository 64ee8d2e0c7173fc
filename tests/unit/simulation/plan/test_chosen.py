from __future__ import annotations

from tests.simulation.plan import FURTHER_FROM, systematic_runs
from tests.simulation.plan.chosen import chosen


def test_the_systematic_runs_come_first() -> None:
    assert chosen(systematic_runs()) == list(range(systematic_runs()))


def test_one_of_six_behind_them_has_more_in_it() -> None:
    seeds = chosen(FURTHER_FROM)
    further = [seed for seed in seeds if seed >= FURTHER_FROM]
    assert further == list(range(FURTHER_FROM, FURTHER_FROM + len(further)))
    assert len(set(seeds)) == len(seeds)
    assert 5 <= (len(seeds) - systematic_runs()) / len(further) <= 6
    assert {seed % 12 for seed in further} == set(range(12))


def test_more_seeds_are_the_same_and_more() -> None:
    assert chosen(300) == chosen(900)[:300]
    assert chosen(FURTHER_FROM + 5)[-5:] == list(range(FURTHER_FROM, FURTHER_FROM + 5))
