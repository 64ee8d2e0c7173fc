"""What the random runs from FURTHER_FROM on have beside the others: steps that an operation takes only in trouble, a
link that is deleted and created anew, or changed, paused and resumed under load, a topic that is mirrored when its
group is known already, and one whose mirror the link creates by itself; a mirror that is deleted with its topic, and
mirrored again; a gateway that is late with the end of a transaction, or with the identity that one needs; a broker of
the source that has lost its cluster. What `wider.py` has comes on top.

Drawn with dice of its own, and by later seeds only: the plans of the seeds before stay as they were. Pure.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from tests.simulation.plan.kinds import EventKind, FaultKind, Operation
from tests.simulation.plan.pairs import MORE_STEPS
from tests.simulation.plan.run_plan import Act, Event, Fault, RunPlan
from tests.simulation.plan.topics import AUTO, PLAIN, SET
from tests.simulation.plan.wider import wider

_RELINK: Final = 90
_UPDATE: Final = 91
_AUTO_CREATE: Final = 92
_UNMIRROR: Final = 93
_REHEARSE: Final = 84
_REHEARSED_EVERY: Final = 4
_TROUBLE: Final = (
    (Operation.FAILOVER, "persist", EventKind.STATE_UNHEARD, "settle"),
    (Operation.FAILOVER, "persist", EventKind.STATE_REFUSED, "take_back"),
    (Operation.DEMOTE, "mark_active", EventKind.STATE_UNHEARD, "settle"),
)
"""Operation, a step of it, what comes between, and the step that is taken then."""

_RESTARTS: Final = (
    FaultKind.LEADER_LEAVES,
    FaultKind.LEADER_KILLED,
    FaultKind.FOLLOWER_LEAVES,
    FaultKind.FOLLOWER_KILLED,
)
"""A gateway that nothing of the target reaches cannot start, which says nothing of the fleet."""

_PAUSES: Final = (FaultKind.LEADER_PAUSED, FaultKind.FOLLOWER_PAUSED)
_BESIDE: Final = (
    Operation.GROUP_PROMOTE,
    Operation.DEMOTE,
    Operation.REBALANCE,
    Operation.RESTART,
    Operation.UPDATE_LINK,
)
"""Operations that change no topic's side."""
_DELETES: Final = ("keep", "delete", "create")


def further(plan: RunPlan, dice: random.Random) -> RunPlan:
    """The run with some of it."""
    plan = _troubled(plan, dice)
    if dice.random() < 0.5:
        plan = _relinked(plan, dice)
    if dice.random() < 0.5:
        plan = _known_group(plan)
    if dice.random() < 0.3:
        plan = _killed_often(plan, dice)
    plan = _heard_late(plan, dice)
    if dice.random() < 0.5:
        plan = _updated(plan, dice)
    if dice.random() < 0.5:
        plan = _auto_created(plan, dice)
    plan = _cut_off(_rehearsed(_identities_late(_ends_late(_configs_read(plan, dice)))))
    return _owners_change(wider(_unmirrored(plan, dice) if dice.random() < 0.4 else plan))


def _updated(plan: RunPlan, dice: random.Random) -> RunPlan:
    """Between two acts, once something is mirrored."""
    created = [at for at, act in enumerate(plan.acts) if act.operation is Operation.CREATE]
    if not created:
        return plan
    at = dice.randint(created[0] + 1, len(plan.acts))
    act = Act(_UPDATE, Operation.UPDATE_LINK, pause_s=round(dice.uniform(0.05, 0.5), 2))
    steps = MORE_STEPS[Operation.UPDATE_LINK]
    faults = [_fault(dice, act.number, dice.choice(steps)) for _ in range(dice.choice((0, 1, 1, 2)))]
    unknown = [Event(EventKind.STATE_UNANSWERED, act.number, "store", 0.0, 40.0)]
    events = unknown if dice.random() < 0.4 else []
    acts = (*plan.acts[:at], act, *plan.acts[at:])
    return replace(plan, acts=acts, faults=(*plan.faults, *faults), events=(*plan.events, *events))


def _troubled(plan: RunPlan, dice: random.Random) -> RunPlan:
    """At most one for each act: what is refused is not of unknown outcome."""
    events, faults = list(plan.events), list(plan.faults)
    for act in plan.acts:
        drawn = [each for each in _TROUBLE if each[0] is act.operation]
        if not drawn or dice.random() < 0.3:
            continue
        _, at, kind, step = dice.choice(drawn)
        fault, hold_s = _fault(dice, act.number, step), dice.uniform(6.0, 20.0)
        restarts = any(each.kind in _RESTARTS for each in (*faults, fault) if each.act == act.number)
        if kind is EventKind.STATE_UNHEARD and restarts:
            kind, hold_s = EventKind.STATE_UNANSWERED, dice.uniform(21.0, 30.0)
        events.append(Event(kind, act.number, at, 0.0, round(hold_s, 2)))
        if dice.random() < 0.7:
            faults.append(fault)
    return replace(plan, events=tuple(events), faults=tuple(faults))


def _relinked(plan: RunPlan, dice: random.Random) -> RunPlan:
    """First of all: the records of its mirrors would be deleted with a link."""
    act = Act(_RELINK, Operation.RELINK, pause_s=round(dice.uniform(0.05, 0.5), 2))
    steps = MORE_STEPS[Operation.RELINK]
    faults = [_fault(dice, act.number, dice.choice(steps)) for _ in range(dice.choice((0, 1, 1, 2)))]
    unknown = [Event(EventKind.STATE_UNANSWERED, act.number, dice.choice(steps), 0.0, 40.0)]
    events = unknown if dice.random() < 0.4 else []
    return replace(plan, acts=(act, *plan.acts), faults=(*plan.faults, *faults), events=(*plan.events, *events))


def _unmirrored(plan: RunPlan, dice: random.Random) -> RunPlan:
    """Before the first create, which mirrors the topic again, and behind a link that is created anew."""
    first = next((at for at, act in enumerate(plan.acts) if act.operation is Operation.CREATE), None)
    if first is None:
        return plan
    act = Act(_UNMIRROR, Operation.UNMIRROR, plan.acts[first].topics, pause_s=round(dice.uniform(0.05, 0.5), 2))
    steps = MORE_STEPS[Operation.UNMIRROR]
    faults = [_fault(dice, act.number, dice.choice(steps)) for _ in range(dice.choice((0, 1, 1, 2)))]
    unknown = [Event(EventKind.STATE_UNANSWERED, act.number, dice.choice(steps), 0.0, 40.0)]
    events = unknown if dice.random() < 0.4 else []
    if dice.random() < 0.3:
        events = [*events, Event(EventKind.COPY_REPLACED, act.number, "delete_topic")]
    acts = (*plan.acts[:first], act, *plan.acts[first:])
    return replace(plan, acts=acts, faults=(*plan.faults, *faults), events=(*plan.events, *events))


def _known_group(plan: RunPlan) -> RunPlan:
    """The group has committed for both topics, and one of its members waits at the gate for the first one."""
    first = next((act for act in plan.acts if act.operation is Operation.CREATE and act.topics == PLAIN), None)
    if first is None:
        return plan
    events = (
        Event(EventKind.COMMITTED_ELSEWHERE, first.number),
        Event(EventKind.FIRST_REQUEST, first.number, "store", 0.2, 10.0),
    )
    return replace(plan, events=(*plan.events, *events))


def _killed_often(plan: RunPlan, dice: random.Random) -> RunPlan:
    """Not where nothing of the target may reach it: see `_RESTARTS`."""
    unheard = {event.act for event in plan.events if event.kind is EventKind.STATE_UNHEARD}
    acts = [act for act in plan.acts if act.number not in unheard]
    if not acts:
        return plan
    act, hold_s = dice.choice(acts), round(dice.uniform(2.0, 8.0), 2)
    event = Event(EventKind.KILLED_OFTEN, act.number, "", round(dice.uniform(0.0, 3.0), 2), hold_s)
    return replace(plan, events=(*plan.events, event))


def _heard_late(plan: RunPlan, dice: random.Random) -> RunPlan:
    events = [
        Event(EventKind.SOURCE_HEARS_LATE, act.number, dice.choice(_DELETES), 0.0, round(dice.uniform(0.5, 20.0), 2))
        for act in plan.acts
        if act.operation is Operation.RESTORE and dice.random() < 0.5
    ]
    return replace(plan, events=(*plan.events, *events))


def _ends_late(plan: RunPlan) -> RunPlan:
    """Once the transactional producer writes by gateways, of which there is another one to go to. With dice of its own.

    Not where a gateway is paused: who sleeps with a client's request in its hand wakes up to send it, whatever has
    become of the client, and no more can be asked of Kafka's first version of transactions.
    """
    dice = random.Random(f"ends/{plan.seed}")
    created = [at for at, act in enumerate(plan.acts) if act.operation is Operation.CREATE and act.topics == SET[1:]]
    if not created or plan.gateways < 2 or dice.random() < 0.4:
        return plan
    paused = {fault.act for fault in plan.faults if fault.kind in _PAUSES}
    acts = [act for act in plan.acts[created[-1] + 1 :] if act.number not in paused]
    kinds = (EventKind.END_HELD, EventKind.END_ON_ITS_WAY)
    events = [
        Event(kind, act.number, "", round(dice.uniform(0.0, 2.0), 2), round(dice.uniform(1.5, 5.0), 2))
        for kind, act in zip(kinds, dice.sample(acts, min(len(acts), 2)), strict=False)
    ]
    promoted = next((at for at, act in enumerate(acts) if act.operation is Operation.PROMOTE_SET), len(acts))
    if acts[promoted + 1 :]:
        act, begins, lasts = dice.choice(acts[promoted + 1 :]), dice.uniform(0.0, 2.0), dice.uniform(1.5, 5.0)
        events.append(Event(EventKind.END_PASSED_ON, act.number, "", round(begins, 2), round(lasts, 2)))
    return replace(plan, events=(*plan.events, *events))


def _identities_late(plan: RunPlan) -> RunPlan:
    """Behind a failback every transactional producer needs a new identity on the source. With dice of its own."""
    dice = random.Random(f"identities/{plan.seed}")
    events = [
        Event(EventKind.IDENTITY_LATE, act.number, "", 0.0, round(dice.uniform(0.2, 1.5), 2))
        for act in plan.acts
        if act.operation is Operation.FAILBACK_SET and dice.random() < 0.5
    ]
    return replace(plan, events=(*plan.events, *events))


def _cut_off(plan: RunPlan) -> RunPlan:
    """For longer than a broker's session, so that another one leads, and from before an operation on. With dice of its
    own."""
    dice = random.Random(f"cut off/{plan.seed}")
    events = [
        Event(
            EventKind.SOURCE_BROKER_CUT_OFF,
            act.number,
            "",
            round(dice.uniform(0.0, 2.0), 2),
            round(dice.uniform(8.0, 30.0), 2),
        )
        for act in plan.acts
        if dice.random() < 0.3
    ]
    return replace(plan, events=(*plan.events, *events))


def _owners_change(plan: RunPlan) -> RunPlan:
    """The owner of a topic changes its configs, where it is written. Not beside a change of sides: what a promote has
    read of configs by then, nobody could say; nor right before a failover, which goes by what was read before. With
    dice of its own."""
    dice = random.Random(f"owners/{plan.seed}")
    events = [
        Event(EventKind.CONFIGS_CHANGED, act.number)
        for act, then in zip_longest(plan.acts, plan.acts[1:])
        if act.operation in _BESIDE
        and dice.random() < 0.4
        and (then is None or then.operation is not Operation.FAILOVER)
    ]
    return replace(plan, events=(*plan.events, *events))


def _rehearsed(plan: RunPlan) -> RunPlan:
    """One seed of four, right before the topic is promoted. Its faults go through every pair, run by run."""
    number, rest = divmod(plan.seed, _REHEARSED_EVERY)
    at = next((at for at, act in enumerate(plan.acts) if (act.operation, act.topics) == (Operation.PROMOTE, PLAIN)), -1)
    if rest or at < 0:
        return plan
    steps, kinds = MORE_STEPS[Operation.REHEARSE], tuple(FaultKind)
    kind, step = divmod(number % (len(steps) * len(kinds)), len(steps))
    dice = random.Random(f"rehearse/{plan.seed}")
    act = Act(_REHEARSE, Operation.REHEARSE, PLAIN, pause_s=round(dice.uniform(0.05, 0.5), 2))
    fault = Fault(kinds[kind], act.number, steps[step], 0.0, round(dice.uniform(0.1, 10.0), 2))
    return replace(plan, acts=(*plan.acts[:at], act, *plan.acts[at:]), faults=(*plan.faults, fault))


def _auto_created(plan: RunPlan, dice: random.Random) -> RunPlan:
    """Before anything else but a link's end, with whose records its mirror's would go."""
    at = 1 if plan.acts and plan.acts[0].operation is Operation.RELINK else 0
    act = Act(_AUTO_CREATE, Operation.AUTO_CREATE, (AUTO,), pause_s=round(dice.uniform(0.05, 1.5), 2))
    steps = MORE_STEPS[Operation.AUTO_CREATE]
    faults = [_fault(dice, act.number, dice.choice(steps)) for _ in range(dice.choice((0, 1, 1, 2)))]
    acts = (*plan.acts[:at], act, *plan.acts[at:])
    return replace(plan, acts=acts, faults=(*plan.faults, *faults), auto_create=True)


def _configs_read(plan: RunPlan, dice: random.Random) -> RunPlan:
    promotes = [act for act in plan.acts if act.operation is Operation.PROMOTE and dice.random() < 0.3]
    return replace(plan, faults=(*plan.faults, *(_fault(dice, act.number, "read_configs") for act in promotes)))


def _fault(dice: random.Random, act: int, step: str) -> Fault:
    return Fault(dice.choice(tuple(FaultKind)), act, step, 0.0, round(dice.uniform(0.1, 10.0), 2))
