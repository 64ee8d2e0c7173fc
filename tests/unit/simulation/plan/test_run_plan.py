from __future__ import annotations

import json

from tests.simulation.plan import RANDOM_FROM, RunPlan, plan


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
