"""Runs in which more of what comes along with clients goes wrong: a pipeline whose library commits its offsets by the
old API, a target that refuses ACLs one by one, and a link that copies schemas, which others register and refuse.
What the fleet says when it is asked in the course of the run is judged as well.

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
_SCHEMAS: Final = 0.5
_OF_SCHEMAS: Final = {
    EventKind.SCHEMAS_CHANGED: 0.3,
    EventKind.SCHEMA_FIRST: 0.3,
    EventKind.SCHEMAS_REFUSED: 0.2,
}
_RIGHTS_CHANGE: Final = (Operation.CHANGE_ACLS, Operation.PROMOTE, Operation.PROMOTE_SET)


def with_more_carried(plan: RunPlan) -> RunPlan:
    """The run with it."""
    if plan.seed % _EVERY:
        return plan
    dice, plan = random.Random(f"carried/{plan.seed}"), replace(plan, asks=True)
    if PIPE in plan.cast and dice.random() < _OLD:
        plan = replace(plan, cast=(*plan.cast, OLD_API))
    if plan.acls:
        plan = _refusing(plan, dice)
    return _with_schemas(plan, dice) if dice.random() < _SCHEMAS else plan


def _with_schemas(plan: RunPlan, dice: random.Random) -> RunPlan:
    """Not where the link is deleted and made anew: what it has imported is the target's own then."""
    if any(act.operation is Operation.RELINK for act in plan.acts):
        return plan
    events = [
        Event(
            kind,
            act.number,
            "",
            round(dice.uniform(0.0, 2.0), 2),
            round(dice.uniform(2.0, 12.0), 2),
        )
        for act in plan.acts
        for kind, often in _OF_SCHEMAS.items()
        if dice.random() < often
    ]
    return replace(plan, schemas=True, events=(*plan.events, *events))


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
