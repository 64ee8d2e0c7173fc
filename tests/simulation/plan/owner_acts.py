"""Runs in which a topic has an owner who goes on as if nobody migrated it.

One seed of four of those from FURTHER_FROM on, with dice of its own: a topic with clients and a link of its own
(`operations/owned.py`) goes through a whole life among the others, and its owner does one or two things to it, each at
a step of an operation that is drawn, on a cluster that is drawn (`faults/owner_events.py`). Pure.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tests.simulation.plan.kinds import EventKind, Operation
from tests.simulation.plan.pairs import MORE_STEPS, STEPS
from tests.simulation.plan.run_plan import Act, Event, RunPlan
from tests.simulation.plan.topics import OWNED, OWNED_GROUP

_EVERY: Final = 4
_FIRST: Final = 60
"""Numbers of the acts: up to 69."""
_O: Final = Operation
BY_MIRROR: Final = "mirror"
BY_LINK: Final = "link"
TRANSACTIONS: Final = "transactions"
"""What `Act.how` may hold: what is deleted, and that the writer has transactions."""
OWN_STEPS: Final[Mapping[Operation, tuple[str, ...]]] = {
    _O.OWN: ("create_link", "begin", "intent", "read_by_all", "create_topic", "store"),
    _O.MADE_AGAIN: ("delete_mirror", "carry_out", "delete_topic", "begin", "intent", "create_topic", "store"),
}
LIVES: Final = (
    (_O.OWN, _O.GROUP_PROMOTE, _O.PROMOTE, _O.REVERSE, _O.FAILBACK, _O.DEMOTE),
    (_O.OWN, _O.PROMOTE, _O.REVERSE, _O.FAILBACK, _O.MADE_AGAIN, _O.PROMOTE),
    (_O.OWN, _O.GROUP_PROMOTE, _O.FAILOVER, _O.RESTORE, _O.FAILBACK),
)
KINDS: Final = (
    EventKind.OWNER_ADDS,
    EventKind.OWNER_ALTERS,
    EventKind.OWNER_DELETES_RECORDS,
    EventKind.OWNER_DELETES_GROUP,
    EventKind.OWNER_DELETES_TOPIC,
)
_SIDES: Final = ("source", "target")


def owned_life(*operations: Operation, how: str = "", pause_s: float = 0.5) -> tuple[Act, ...]:
    """These operations of the owned topic, and of its group. `how`: of the writer; what is made again."""
    groups = (_O.GROUP_PROMOTE, _O.DEMOTE)
    return tuple(
        Act(_FIRST + at, each, (OWNED,), OWNED_GROUP if each in groups else "", pause_s, how=how)
        for at, each in enumerate(operations)
    )


def with_owner(plan: RunPlan) -> RunPlan:
    """The run with it."""
    if plan.seed % _EVERY != 2:
        return plan
    dice = random.Random(f"owner/{plan.seed}")
    # No transactions where the source's topic is made anew: it has no markers then, so other offsets than were read.
    operations = dice.choice(LIVES)
    how = TRANSACTIONS if dice.random() < 0.3 and Operation.RESTORE not in operations else ""
    own = [replace(act, pause_s=round(dice.uniform(0.1, 1.0), 2)) for act in owned_life(*operations, how=how)]
    struck = sorted(dice.sample(own, dice.choice((1, 1, 2))), key=lambda act: act.number)
    events = [_event(act, dice) for act in struck]
    life = list(plan.acts)
    at = 1 if life and life[0].operation is Operation.RELINK else 0
    for act in own:
        at = dice.randint(at, len(life))
        life.insert(at, act)
        at += 1
    return replace(plan, acts=tuple(life), events=(*plan.events, *events))


def _event(act: Act, dice: random.Random) -> Event:
    step = dice.choice(("", *steps_of(act.operation)))
    delay_s = 0.0 if step and dice.random() < 0.7 else dice.uniform(0.0, 1.5)
    return Event(dice.choice(KINDS), act.number, step, round(delay_s, 2), 2.0, dice.choice(_SIDES))


def steps_of(operation: Operation) -> tuple[str, ...]:
    """At which an owner may act."""
    return OWN_STEPS.get(operation) or STEPS.get(operation) or MORE_STEPS.get(operation, ())
