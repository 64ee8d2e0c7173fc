from __future__ import annotations

import json
from collections import Counter

from tests.simulation.plan import (
    GIVEN_UP,
    PAIRS,
    RANDOM_FROM,
    STEPS,
    Operation,
    RunPlan,
    plan,
    systematic,
    systematic_runs,
)


def test_a_seed_is_a_plan():
    assert plan(7) == plan(7)
    assert plan(RANDOM_FROM + 7) == plan(RANDOM_FROM + 7)
    assert plan(7) != plan(8)


def test_systematic_runs_go_through_every_pair():
    met = Counter(
        (act.operation, fault.step, fault.kind)
        for number in range(systematic_runs())
        for run in [systematic(number)]
        for fault in run.faults
        for act in run.acts
        if act.number == fault.act
    )
    assert set(met) == set(PAIRS)


def test_every_operation_is_in_every_life():
    assert {act.operation for act in plan(3).acts} == set(Operation) - set(GIVEN_UP)
    assert {act.operation for act in plan(systematic_runs() - 1).acts} == set(Operation) == set(STEPS)


def test_a_plan_comes_back_from_its_file():
    for seed in (5, RANDOM_FROM + 5):
        there = json.loads(json.dumps(plan(seed).as_json()))
        assert RunPlan.from_json(there) == plan(seed)


def test_acts_left_out_take_their_faults_along():
    run = plan(0)
    left = run.without(acts=frozenset({run.faults[0].act}))
    assert run.faults[0] not in left.faults
    assert len(left.acts) == len(run.acts) - 1
    assert left.acts[0].number != run.faults[0].act or run.faults[0].act != 0
