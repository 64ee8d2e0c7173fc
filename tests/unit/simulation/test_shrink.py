from __future__ import annotations

from tests.simulation.plan import RunPlan, plan
from tests.simulation.shrink import shrink


def test_what_does_not_matter_is_left_out():
    whole = plan(100_007)
    fault, act = whole.faults[len(whole.faults) // 2], whole.acts[-1]

    def fails(candidate: RunPlan) -> str:
        return "lost" if fault in candidate.faults and act in candidate.acts else ""

    small = shrink(whole, fails)

    assert set(small.faults) == {fault}
    assert {one.number for one in small.acts} == {fault.act, act.number}
    assert small.gateways == 1


def test_another_failure_is_not_taken_for_the_same():
    whole = plan(100_007)

    def fails(candidate: RunPlan) -> str:
        return "lost" if len(candidate.faults) == len(whole.faults) else "stuck"

    assert shrink(whole, fails).faults == whole.faults


def test_a_run_that_passes_is_left_as_it_is():
    assert shrink(plan(1), lambda _: "") == plan(1)


def test_the_budget_ends_it():
    runs = []

    def fails(candidate: RunPlan) -> str:
        runs.append(candidate)
        return "lost"

    shrink(plan(100_003), fails, budget=10)
    assert len(runs) <= 11
