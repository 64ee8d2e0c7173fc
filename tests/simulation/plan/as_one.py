"""Runs in which topics and groups change sides as one, there, home and there again; systematically: run number n has
the n-th pair of step and fault. Pure.

What takes part: two groups that read a topic, one of them a pipeline that reads and writes in one transaction, and a
transactional producer; all their topics are one set. Nobody is asked for `force`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from tests.simulation.plan.kinds import EventKind, FaultKind, Operation
from tests.simulation.plan.roles import OUT, PIPE
from tests.simulation.plan.run_plan import Act, Event, Fault, RunPlan
from tests.simulation.plan.topics import NEWCOMER, PLAIN, SET

AS_ONE_FROM: Final = 50_000
AS_ONE: Final = (*PLAIN, OUT, *SET)
"""The topics of the set; what is written in one transaction last, since its producer comes to the gateways then."""
ASKED: Final = "asked"
"""The promote is asked for while members are on the source still, and waits for them."""

_BEFORE: Final = (
    "mark_pending",
    "look_at_groups",
    "hold_groups",
    "pause_writes",
    "read_ends",
    "stop_mirror",
    "read_copy",
)
_BEHIND: Final = ("read_groups", "commit_groups", "check_groups", "persist_stopped", "publish_switched")
AS_ONE_STEPS: Final[Mapping[Operation, tuple[str, ...]]] = {
    Operation.AS_ONE: (*_BEFORE, *_BEHIND, "restore_configs"),
    Operation.AS_ONE_HOME: (*_BEFORE, "shut_gates", *_BEHIND),
}
_EVENTS: Final = (
    EventKind.STATE_UNANSWERED,
    EventKind.STATE_REFUSED,
    EventKind.STATE_LATE,
    EventKind.ANSWERS_LOST,
    EventKind.CUT_ONE_WAY,
    EventKind.SOURCE_SLOW,
)


def as_one(seed: int) -> RunPlan:
    """The run of a seed from AS_ONE_FROM on."""
    number, dice = seed - AS_ONE_FROM, random.Random(f"as-one/{seed}")
    operations = [
        *((Operation.CREATE, (topic,)) for topic in AS_ONE),
        (Operation.AS_ONE, AS_ONE),
        (Operation.REVERSE, AS_ONE),
        (Operation.AS_ONE_HOME, AS_ONE),
        (Operation.AS_ONE, AS_ONE),
    ]
    acts = tuple(
        Act(at, operation, topics, pause_s=round(dice.uniform(0.05, 0.5), 2), how=_how(operation, number + at))
        for at, (operation, topics) in enumerate(operations)
    )
    faults, struck = [], set[Operation]()
    for act in acts:
        steps, kinds = AS_ONE_STEPS.get(act.operation, ()), tuple(FaultKind)
        if not steps:
            continue
        if act.operation in struck:  # the second time, at random
            if dice.random() < 0.5:
                faults.append(Fault(dice.choice(kinds), act.number, dice.choice(steps), 0.0, _hold(dice)))
            continue
        struck.add(act.operation)
        kind, step = divmod(number % (len(steps) * len(kinds)), len(steps))
        faults.append(Fault(kinds[kind], act.number, steps[step], 0.0, _hold(dice)))
    events = [
        Event(dice.choice(_EVENTS), act.number, dice.choice(AS_ONE_STEPS[act.operation]), 0.0, _hold(dice))
        for act in acts
        if act.operation in AS_ONE_STEPS and number >= len(FaultKind) and dice.random() < 0.25
    ]
    return RunPlan(
        seed,
        gateways=(3, 3, 2)[number % 3],
        source_kafka=("3.9.1", "4.3.1")[seed % 2],
        acts=acts,
        faults=tuple(faults),
        events=tuple(events),
        synced=number % 4 == 1,
        cast=(PIPE, NEWCOMER),
        rate_per_s=8.0,
    )


def _how(operation: Operation, number: int) -> str:
    return ASKED if operation is Operation.AS_ONE and number % 2 else ""


def _hold(dice: random.Random) -> float:
    return round(dice.choice((dice.uniform(0.1, 1.0), dice.uniform(1.0, 4.0), dice.uniform(4.0, 12.0))), 2)
