"""Runs in which the clusters themselves are unsteady: coordinators that refuse, fail over or are cut off, a slow
controller, brokers that lag, quotas. See `faults/cluster_events.py`.

One seed of four of those from FURTHER_FROM on, with dice of its own. Pure.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from tests.simulation.plan.kinds import EventKind
from tests.simulation.plan.pairs import MORE_STEPS, STEPS
from tests.simulation.plan.run_plan import Act, Event, RunPlan

_EVERY: Final = 4
_AT: Final = 3
_KINDS: Final = (
    (EventKind.COORDINATOR_REFUSES, (1.0, 12.0)),
    (EventKind.COORDINATOR_FAILS_OVER, (4.0, 12.0)),
    (EventKind.COORDINATOR_CUT_OFF, (4.0, 30.0)),
    (EventKind.COORDINATOR_KEEPS_ONE, (6.0, 30.0)),
    (EventKind.FOLLOWER_LEFT_OUT, (6.0, 30.0)),
    (EventKind.CONTROLLER_SLOW, (2.0, 12.0)),
    (EventKind.BROKER_ANSWERS_LATE, (2.0, 12.0)),
    (EventKind.CONFIGS_HEARD_LATE, (0.5, 6.0)),
    (EventKind.QUOTA_MUTES, (1.0, 8.0)),
)
"""With how long each goes on, at least and at most. A broker that is cut off is fenced in that time, or is not."""
_MOST: Final = 4


def on_unsteady_clusters(plan: RunPlan) -> RunPlan:
    """The run with some of it: each kind first in one run of so many, then what the dice say."""
    if plan.seed % _EVERY != _AT:
        return plan
    dice = random.Random(f"unsteady clusters/{plan.seed}")
    first = plan.seed // _EVERY % len(_KINDS)
    kinds = [_KINDS[first], *(dice.choice(_KINDS) for _ in range(dice.randrange(_MOST)))]
    return replace(plan, events=(*plan.events, *(_event(kind, dice.choice(plan.acts), dice) for kind in kinds)))


def _event(kind: tuple[EventKind, tuple[float, float]], act: Act, dice: random.Random) -> Event:
    """At a step of the operation, or a while after it began."""
    step = dice.choice(("", *(STEPS.get(act.operation) or MORE_STEPS.get(act.operation, ()))))
    delay_s = dice.choice((0.0, dice.uniform(0.0, 0.3))) if step else dice.uniform(0.0, 4.0)
    return Event(kind[0], act.number, step, round(delay_s, 3), round(dice.uniform(*kind[1]), 2))
