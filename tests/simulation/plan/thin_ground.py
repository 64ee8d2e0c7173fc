"""Runs in which the ground gives way: the target loses records of the fleet's own topics, which it has acknowledged.

One seed of four of those from FURTHER_FROM on, with dice of its own. Not where a gateway is alone, or killed again and
again: what a fleet knows of lost records is in the memory of its gateways. Pure.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from tests.simulation.plan.kinds import EventKind
from tests.simulation.plan.pairs import MORE_STEPS, STEPS
from tests.simulation.plan.run_plan import Event, RunPlan

_EVERY: Final = 4
_MANY: Final = 3
_ALONE: Final = (EventKind.KILLED_OFTEN, EventKind.NAME_TAKEN)


def on_thin_ground(plan: RunPlan) -> RunPlan:
    """The run with it: once, at a step of an operation or a while after it began."""
    if plan.seed % _EVERY != 1 or plan.gateways < _MANY or any(event.kind in _ALONE for event in plan.events):
        return plan
    dice = random.Random(f"thin ground/{plan.seed}")
    act = dice.choice(plan.acts)
    steps = ("", *(STEPS.get(act.operation) or MORE_STEPS.get(act.operation, ())))
    step = dice.choice(steps)
    delay_s = dice.choice((0.0, dice.uniform(0.0, 0.3))) if step else dice.uniform(0.0, 4.0)
    lost = Event(EventKind.STATE_LOST, act.number, step, round(delay_s, 3), round(dice.uniform(0.5, 10.0), 2))
    return replace(plan, events=(*plan.events, lost))
