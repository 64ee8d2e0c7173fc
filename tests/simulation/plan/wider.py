"""What seeds from FURTHER_FROM on have of repairs and of further links, systematically: run by run another pair.

Of three runs the first has a mirror that FAILs and is repaired, the second a further link: a chain, two targets of one
source, links both ways, or two sources of one target; the link of the third copies ACLs, which change meanwhile. Their
faults go through every pair of step and fault, as those of the systematic runs do: number n of them has the n-th pair.
The steps that a repair takes depend on what has happened to the mirror, so that is chosen by the step. Drawn with dice
of its own, since the other acts of these seeds had theirs before. Pure.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from tests.simulation.plan.kinds import EventKind, FaultKind, Operation
from tests.simulation.plan.pairs import BUILT_FIRST, MORE_STEPS, STEPS
from tests.simulation.plan.run_plan import Act, Event, Fault, RunPlan
from tests.simulation.plan.topics import CHAINED, CROSSED, EAST, FANNED, MENDED, NORTH, ORDERS, PLAIN, SET

FURTHER_FROM: Final = 2_000
"""The first seed of those that have more in them."""
_SPOIL: Final = 94
_REPAIR: Final = 95
_PROMOTE: Final = 96
_JOIN: Final = 97
_THEN: Final = 98
_WAY_HOME: Final = ((80, Operation.REVERSE), (81, Operation.FAILBACK))
"""Of a chain's first link: behind the promote of its second one, or before it, which takes another one of the first."""
_AGAIN: Final = 82
"""Numbers of the acts. Those of a cast's begin at 100."""
_LAST: Final = 99
_CHANGE: Final = 83

_EVERY: Final = 3
_RESUMED: Final = ("refused", "overtaken")
_RECREATED: Final = ("written", "deleted", "made-anew", "overtaken-anew")
_HOWS: Final[dict[str, tuple[str, ...]]] = {"plan": (*_RESUMED, *_RECREATED), "resume": _RESUMED}
"""Step -> what must have happened to the mirror, so that a repair takes it; any other step is one of a `recreate`."""
_APART: Final = 38
"""A quarter of the pairs of a promote: each topology begins with others, so that they go through all together."""
_GOES_ON: Final = 0.7
"""How often a topic is promoted afterwards."""
_GIVE_RIGHTS: Final = (Operation.PROMOTE, Operation.PROMOTE_SET, Operation.FAILBACK)
_JOINED: Final = (
    (Operation.CHAIN, (CHAINED,)),
    (Operation.FAN_OUT, (FANNED,)),
    (Operation.BOTH_WAYS, (CROSSED,)),
    (Operation.AGGREGATE, (f"{NORTH}{ORDERS}", f"{EAST}{ORDERS}")),
)


def wider(plan: RunPlan) -> RunPlan:
    """The run with what its number has."""
    number, kind = divmod(plan.seed - FURTHER_FROM, _EVERY)
    dice = random.Random(f"wider/{plan.seed}")
    if kind == 0:
        return _repaired(plan, number, dice)
    return _joined(plan, number, dice) if kind == 1 else _with_acls(plan, number, dice)


def _repaired(plan: RunPlan, number: int, dice: random.Random) -> RunPlan:
    fault = _struck(Operation.REPAIR, _REPAIR, number, dice)
    how = dice.choice(_HOWS.get(fault.step, _RECREATED))
    acts = [Act(_SPOIL, Operation.SPOIL, (MENDED,), how=how), Act(_REPAIR, Operation.REPAIR, (MENDED,), how=how)]
    if dice.random() < _GOES_ON:
        acts.append(Act(_PROMOTE, Operation.PROMOTE, (MENDED,)))
    return _with(plan, acts, [fault, *_more(Operation.REPAIR, _REPAIR, dice)], dice)


def _joined(plan: RunPlan, number: int, dice: random.Random) -> RunPlan:
    nth, which = divmod(number, len(_JOINED))
    operation, topics = _JOINED[which]
    acts, faults = [Act(_JOIN, operation, topics)], [_struck(operation, _JOIN, nth, dice)]
    faults += _more(operation, _JOIN, dice)
    if operation in (Operation.CHAIN, Operation.FAN_OUT):
        acts.append(Act(_THEN, Operation.PROMOTE, topics))
    way_home = [Act(number, each, topics) for number, each in _WAY_HOME] if operation is Operation.CHAIN else []
    before_the_next = dice.random() < 0.5
    if way_home and before_the_next:
        acts += [*way_home, Act(_AGAIN, Operation.PROMOTE, topics)]
    if operation is not Operation.FAN_OUT:
        acts += [Act(_LAST - at, Operation.PROMOTE_JOINED, (topic,)) for at, topic in enumerate(topics)]
        faults.append(_struck(Operation.PROMOTE_JOINED, _LAST, nth + which * _APART, dice))
    if way_home and not before_the_next:
        acts += way_home
    for act in way_home:
        step = dice.choice(STEPS[act.operation])
        faults.append(Fault(dice.choice(tuple(FaultKind)), act.number, step, 0.0, _hold(dice)))
    return _with(plan, acts, faults, dice)


def _with_acls(plan: RunPlan, number: int, dice: random.Random) -> RunPlan:
    """Not where the link is deleted and made anew: what it has made is the target's own then."""
    if any(act.operation is Operation.RELINK for act in plan.acts):
        return plan
    kinds, faults, events = tuple(FaultKind), [], []
    for act in plan.acts:
        if act.operation in _GIVE_RIGHTS and dice.random() < 0.7:
            kind = kinds[(number + act.number) % len(kinds)]
            faults.append(Fault(kind, act.number, "sync_acls", 0.0, _hold(dice)))
        if act.operation not in BUILT_FIRST and dice.random() < 0.4:
            events.append(Event(EventKind.ACLS_CHANGED, act.number, "", round(dice.uniform(0.0, 2.0), 2)))
    acts = [Act(first, Operation.CHANGE_ACLS, topics) for first, topics in ((_CHANGE, PLAIN), (_CHANGE + 1, SET))]
    faults += [_struck(Operation.CHANGE_ACLS, _CHANGE, number, dice), *_more(Operation.CHANGE_ACLS, _CHANGE + 1, dice)]
    changed = replace(plan, acls=True, events=(*plan.events, *events))
    return _with(changed, acts, faults, dice)


def _with(plan: RunPlan, acts: list[Act], faults: list[Fault], dice: random.Random) -> RunPlan:
    """Put in at random places, one behind the other, behind a link's end, with which their mirrors would go."""
    life = list(plan.acts)
    at = 1 if life and life[0].operation is Operation.RELINK else 0
    for act in acts:
        at = dice.randint(at, len(life))
        life.insert(at, replace(act, pause_s=round(dice.uniform(0.05, 0.5), 2)))
        at += 1
    return replace(plan, acts=tuple(life), faults=(*plan.faults, *faults))


def _struck(operation: Operation, act: int, number: int, dice: random.Random) -> Fault:
    """The pair of that number, counted round."""
    steps, kinds = MORE_STEPS[operation], tuple(FaultKind)
    kind, step = divmod(number % (len(steps) * len(kinds)), len(steps))
    return Fault(kinds[kind], act, steps[step], 0.0, _hold(dice))


def _more(operation: Operation, act: int, dice: random.Random) -> list[Fault]:
    """Now and then another one: at a step, or at any time."""
    step = dice.choice(("", *MORE_STEPS[operation]))
    delay_s = 0.0 if step else round(dice.uniform(0.0, 4.0), 2)
    return [Fault(dice.choice(tuple(FaultKind)), act, step, delay_s, _hold(dice))] if dice.random() < 0.4 else []


def _hold(dice: random.Random) -> float:
    return round(dice.uniform(0.1, 10.0), 2)
