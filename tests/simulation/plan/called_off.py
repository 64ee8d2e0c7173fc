"""Runs in which somebody calls running promotes off: at each step of one, or a moment behind it.

One seed of three of those from FURTHER_FROM on, and of those in which topics and groups change sides as one, behind the
systematic ones of them; with dice of its own. A set is called off as one, by the name of any of its topics. Only topics
that are written to the end of the run, so that it shows whether writes go on. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tests.simulation.plan.as_one import AS_ONE, AS_ONE_STEPS
from tests.simulation.plan.kinds import EventKind, Operation
from tests.simulation.plan.pairs import MORE_STEPS, STEPS
from tests.simulation.plan.run_plan import Act, Event, RunPlan
from tests.simulation.plan.topics import PLAIN, SET

_OFTEN: Final = 1 / 3
_STRUCK: Final = 0.8
_AGAIN: Final = 0.2
_TOPICS: Final = (PLAIN, SET, AS_ONE)
_OF_BACK: Final = ("keep", "prepare", "start", "begin")
"""Steps of a failback that come behind its promote."""
_LAST: Final = ("read_copy", "persist_stopped")
"""Drawn twice as often: right before the point of no return, and at it."""


def _steps(operation: Operation) -> tuple[str, ...]:
    more = () if operation in AS_ONE_STEPS else ("read_configs", *MORE_STEPS.get(operation, ()))
    steps = (*(AS_ONE_STEPS.get(operation) or STEPS[operation]), *more)
    return tuple(dict.fromkeys(step for step in steps if step not in _OF_BACK))


CALLED_OFF_AT: Final[Mapping[Operation, tuple[str, ...]]] = {
    operation: _steps(operation)
    for operation in (
        Operation.PROMOTE,
        Operation.PROMOTE_SET,
        Operation.FAILBACK,
        Operation.FAILBACK_SET,
        Operation.AS_ONE,
        Operation.AS_ONE_HOME,
    )
}
"""Operation -> the steps of its promote at which it is called off."""


def with_call_offs(plan: RunPlan) -> RunPlan:
    """The run with them, if its seed has any."""
    dice = random.Random(f"called off/{plan.seed}")
    if dice.random() >= _OFTEN:
        return plan
    events = []
    for act in plan.acts:
        if act.operation not in CALLED_OFF_AT or act.topics not in _TOPICS or dice.random() >= _STRUCK:
            continue
        events.append(_event(act, dice))
        if dice.random() < _AGAIN:
            events.append(_event(act, dice))
    return replace(plan, events=(*plan.events, *events))


def _event(act: Act, dice: random.Random) -> Event:
    step = dice.choice(("", *_LAST, *CALLED_OFF_AT[act.operation]))
    soon_s = dice.choice((0.0, dice.uniform(0.0, 0.01), dice.uniform(0.0, 0.5)))
    delay_s = soon_s if step else dice.uniform(0.0, 4.0)
    return Event(EventKind.CALLED_OFF, act.number, step, round(delay_s, 4), round(dice.uniform(0.1, 6.0), 2))
