"""Makes a failing run small: the fewest faults, then the fewest operations, with which it still fails in the same way.

A run is deterministic, so each candidate is simply run. Removing goes by halves first (delta debugging), then one by
one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.simulation.plan import RunPlan

Fails = Callable[[RunPlan], str]
"""Runs a plan; returns the class of its first violation, '' when it passes."""


def shrink(plan: RunPlan, fails: Fails, *, budget: int = 200) -> RunPlan:
    """The smallest plan found that fails as `plan` does. `budget`: how many runs it may cost."""
    wanted = fails(plan)
    if not wanted:
        return plan
    left = [budget]

    def still(candidate: RunPlan) -> bool:
        if left[0] <= 0:
            return False
        left[0] -= 1
        return fails(candidate) == wanted

    for most in range(plan.leaders_lost):
        if still(candidate := replace(plan, leaders_lost=most)):
            plan = candidate
            break
    plan = _fewer(plan, len(plan.faults), lambda p, gone: p.without(faults=frozenset(gone)), still)
    plan = _fewer(plan, len(plan.events), lambda p, gone: p.without(events=frozenset(gone)), still)
    numbers = [act.number for act in plan.acts]
    plan = _fewer(plan, len(numbers), lambda p, gone: p.without(acts=frozenset(numbers[at] for at in gone)), still)
    for gateways in range(1, plan.gateways):
        if still(candidate := replace(plan, gateways=gateways)):
            return candidate
    return plan


def _fewer(
    plan: RunPlan, count: int, drop: Callable[[RunPlan, Sequence[int]], RunPlan], still: Callable[[RunPlan], bool]
) -> RunPlan:
    gone: list[int] = []
    size = max(1, count // 2)
    while True:
        kept = [at for at in range(count) if at not in gone]
        for begin in range(0, len(kept), size):
            attempt = [*gone, *kept[begin : begin + size]]
            if still(drop(plan, attempt)):
                gone = attempt
        if size == 1:
            return drop(plan, gone)
        size //= 2
