"""Runs in which a topic has ten thousand producers when it is promoted.

Few, since each takes some seconds more: one seed of 64 of those from FURTHER_FROM on, but where brokers stamp records,
which these have been given before. With dice of its own. Pure.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from tests.simulation.plan.kinds import EventKind, Operation
from tests.simulation.plan.run_plan import Event, RunPlan
from tests.simulation.plan.topics import PLAIN

_EVERY: Final = 64
_THE: Final = 4


def with_many_producers(plan: RunPlan) -> RunPlan:
    """The run with them: they have written for a while when the promote begins, or until then."""
    stamped = plan.seed % 3 == 2
    promotes = [at for at, act in enumerate(plan.acts) if (act.operation, act.topics) == (Operation.PROMOTE, PLAIN)]
    if plan.seed % _EVERY != _THE or stamped or not promotes or not promotes[0]:
        return plan
    dice = random.Random(f"many producers/{plan.seed}")
    before = plan.acts[promotes[0] - dice.choice((0, 1))]
    return replace(plan, events=(*plan.events, Event(EventKind.MANY_PRODUCERS, before.number)))
