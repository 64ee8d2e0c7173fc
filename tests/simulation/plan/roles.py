"""Who takes part in a run beside those of every one: a newcomer in each; in random runs others, drawn by the seed, most
with a topic of their own. Pure; `clients/cast.py` makes the clients.

A topic of the cast is created, promoted, taken back and home as the others are: `acts_of` puts that into a life.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tests.simulation.plan.kinds import EventKind, Operation
from tests.simulation.plan.run_plan import Act, Event, RunPlan
from tests.simulation.plan.topics import NEWCOMER, PLAIN

WEAK: Final = "weak"
"""Written with acks=1, with acks=0, and beside the gateways."""
TABLE: Final = "table"
"""Compacted."""
OUT: Final = "out"
"""What the pipeline writes."""
EXTRA: Final[Mapping[str, int]] = {WEAK: 1, TABLE: 1, OUT: 1}
"""Topic -> partitions."""
COMMITTED: Final = "committed"
PIPE: Final = "pipe"
OLD_API: Final = "old-api"
"""The pipeline's library commits its offsets without saying which member it is: drawn by later seeds only."""

ACKS_1: Final = "acks=1"
ACKS_0: Final = "acks=0"
BYPASS: Final = "bypass"
ROLES: Final[Mapping[str, str]] = {
    ACKS_1: WEAK,
    ACKS_0: WEAK,
    BYPASS: WEAK,
    TABLE: TABLE,
    COMMITTED: "",
    PIPE: OUT,
}
"""Role that is drawn -> the topic it needs, '' for none beside those of every run."""


def topics_of(roles: Sequence[str]) -> tuple[str, ...]:
    """The topics that a cast brings along."""
    wanted = {ROLES[role] for role in roles if role in ROLES}
    return tuple(topic for topic in EXTRA if topic in wanted)


def acts_of(acts: Sequence[Act], roles: Sequence[str], dice: random.Random) -> tuple[Act, ...]:
    """A life with the topics of the cast in it. Their acts have numbers from 100 on."""
    life = list(acts)
    numbers = iter(range(100, 1_000))

    def put(at: int, operation: Operation, topic: str) -> int:
        life.insert(at, Act(next(numbers), operation, (topic,), pause_s=round(dice.uniform(0.1, 1.0), 2)))
        return at

    def first(operation: Operation) -> int:
        return next(at for at, act in enumerate(life) if act.operation is operation)

    for topic in topics_of(roles):
        if topic == OUT:
            put(0, Operation.CREATE, topic)
            put(first(Operation.GROUP_PROMOTE) + 1, Operation.PROMOTE, topic)
            put(first(Operation.DEMOTE), Operation.REVERSE, topic)
            put(first(Operation.DEMOTE), Operation.FAILBACK, topic)
            # Later groups are promoted again, and topics are not: its group and what it writes would be on two sides.
            del life[first(Operation.RESTART) + 1 :]
            continue
        at = put(dice.randint(0, first(Operation.GROUP_PROMOTE) + 2), Operation.CREATE, topic)
        for operation in (Operation.PROMOTE, Operation.REVERSE, Operation.FAILBACK):
            at = put(dice.randint(at + 1, len(life)), operation, topic)
            if dice.random() < 0.3:
                break
    return tuple(life)


def compacted(plan: RunPlan) -> tuple[str, ...]:
    """Topics of a run whose records may vanish."""
    return (TABLE,) if TABLE in plan.cast else ()


def pipelines(plan: RunPlan) -> tuple[tuple[str, str], ...]:
    """What the pipeline of a run reads and writes."""
    return ((PLAIN[0], OUT),) if PIPE in plan.cast else ()


_EVENTS: Final = (
    EventKind.ANSWERS_LOST,
    EventKind.STATE_UNANSWERED,
    EventKind.STATE_REFUSED,
    EventKind.FIRST_REQUEST,
    EventKind.TARGET_BROKER_PAUSED,
    EventKind.SOURCE_BROKER_PAUSED,
    EventKind.SOURCE_SLOW,
    EventKind.CLOCKS_AHEAD,
    EventKind.HALF_A_FRAME,
    EventKind.CUT_ONE_WAY,
)


def widened(plan: RunPlan, dice: random.Random) -> RunPlan:
    """Some of the roles with their acts, a newcomer, and what else may happen in a random run."""
    roles = tuple(role for role in ROLES if dice.random() < 0.25)
    plan = replace(plan, cast=(*roles, NEWCOMER), acts=acts_of(plan.acts, roles, dice), synced=dice.random() < 0.3)
    kinds = (
        *_EVENTS,
        *((EventKind.COMPACTED,) * 4 if TABLE in roles else ()),
        *((EventKind.RECORDS_DELETED, EventKind.RETAINED) * 2 if WEAK in topics_of(roles) else ()),
    )
    events = [
        Event(dice.choice(kinds), act.number, "", round(dice.uniform(0.0, 2.0), 3), round(dice.uniform(0.2, 4.0), 2))
        for act in plan.acts
        if dice.random() < 0.3
    ]
    return replace(plan, events=(*plan.events, *events), rate_per_s=8.0)
