"""Runs in which more of what comes along with clients goes wrong: a pipeline whose library commits its offsets by the
old API, and a target that refuses ACLs one by one.

One seed of four of those from FURTHER_FROM on, with dice of its own. Pure.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from tests.simulation.plan.kinds import EventKind, Operation
from tests.simulation.plan.roles import OLD_API, PIPE
from tests.simulation.plan.run_plan import Event, RunPlan

_EVERY: Final = 4
_OLD: Final = 0.75
_REFUSED: Final = 0.6
_RIGHTS_CHANGE: Final = (Operation.CHANGE_ACLS, Operation.PROMOTE, Operation.PROMOTE_SET)


def with_more_carried(plan: RunPlan) -> RunPlan:
    """The run with it."""
    if plan.seed % _EVERY:
        return plan
    dice = random.Random(f"carried/{plan.seed}")
    if PIPE in plan.cast and dice.random() < _OLD:
        plan = replace(plan, cast=(*plan.cast, OLD_API))
    return _refusing(plan, dice) if plan.acls else plan


def _refusing(plan: RunPlan, dice: random.Random) -> RunPlan:
    events = [
        Event(
            EventKind.ACLS_REFUSED,
            act.number,
            "",
            round(dice.uniform(0.0, 1.0), 2),
            round(dice.uniform(2.0, 12.0), 2),
        )
        for act in plan.acts
        if act.operation in _RIGHTS_CHANGE and dice.random() < _REFUSED
    ]
    return replace(plan, events=(*plan.events, *events))
