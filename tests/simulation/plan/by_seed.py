"""The plan of a seed. Pure: worked out from the seed alone.

Every run is one life of a migration: topics are created and mirrored, clients move, groups and topics are promoted,
fail back, are failed over and restored. A fault is tied to an operation and to a step of it, so that it strikes there
and not at a time that may mean nothing; or, in random runs, to a time after the operation began.

Which step x fault pairs there are is known before (`pairs.py`). The systematic runs come first and go through all of
them: run number n gives each operation the n-th of its pairs. The seeds behind them draw pairs and faults at random
times for each operation; their stories are shorter, one or two topics' worth, and whole lives again from `RANDOM_FROM`
on. Those from `FURTHER_FROM` to there have more in them (`further.py`), and from `AS_ONE_FROM` on topics and groups
change sides as one (`as_one.py`).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tests.simulation.plan.as_one import AS_ONE_FROM, AS_ONE_STEPS, as_one
from tests.simulation.plan.called_off import with_call_offs
from tests.simulation.plan.carried import with_more_carried
from tests.simulation.plan.further import further
from tests.simulation.plan.kinds import EventKind, FaultKind, Operation
from tests.simulation.plan.many_producers import with_many_producers
from tests.simulation.plan.owner_acts import with_owner
from tests.simulation.plan.pairs import STEPS
from tests.simulation.plan.roles import widened
from tests.simulation.plan.run_plan import Act, Event, Fault, RunPlan
from tests.simulation.plan.thin_ground import on_thin_ground
from tests.simulation.plan.topics import GROUP, NEWCOMER, PLAIN, SET
from tests.simulation.plan.unsteady_clusters import on_unsteady_clusters
from tests.simulation.plan.wider import FURTHER_FROM

RANDOM_FROM: Final = 100_000
_RATE: Final = 10.0
_LEADERS_LOST: Final = 6
_AS_ONE_PAIRS: Final = max(map(len, AS_ONE_STEPS.values())) * len(FaultKind)
"""So many seeds from AS_ONE_FROM on go through every pair."""
_EVENTS: Final[Mapping[EventKind, tuple[Operation, tuple[str, ...], float]]] = {
    EventKind.GROUP_ASKS: (Operation.CREATE, ("",), 1.0),
    EventKind.ANSWERS_LOST: (Operation.PROMOTE, ("mark_pending", "pause_writes"), 4.0),
    EventKind.STATE_UNANSWERED: (Operation.GROUP_PROMOTE, ("mark_pending", "mark_promoted"), 26.0),
    EventKind.STATE_REFUSED: (Operation.GROUP_PROMOTE, ("mark_pending", "mark_promoted"), 26.0),
    EventKind.MEMBER_ON_SOURCE: (Operation.GROUP_PROMOTE, ("read_offsets", "commit", "mark_promoted"), 6.0),
    EventKind.DELETE_DELAYED: (Operation.RESTORE, ("",), 60.0),
    EventKind.SOURCE_SLOW: (Operation.FAILOVER, ("begin", "pause_writes"), 8.0),
    EventKind.SOURCE_NARROW: (Operation.PROMOTE, ("mark_pending", "pause_writes"), 8.0),
    EventKind.CLOCKS_AHEAD: (Operation.CREATE, ("",), 1.0),
    EventKind.PARTITIONS_ADDED: (Operation.PROMOTE, ("mark_pending", "pause_writes", "read_ends"), 1.0),
}
"""Where an event happens in random runs, and how long it goes on at most."""
_OF_GROUP: Final = (Operation.GROUP_PROMOTE, Operation.GROUP_GIVEN_UP, Operation.DEMOTE)
_LIFE: Final[tuple[tuple[Operation, tuple[str, ...]], ...]] = (
    (Operation.CREATE, PLAIN),
    (Operation.CREATE, SET[:1]),
    (Operation.CREATE, SET[1:]),
    (Operation.GROUP_PROMOTE, ()),
    (Operation.PROMOTE_GIVEN_UP, PLAIN),
    (Operation.PROMOTE, PLAIN),
    (Operation.PROMOTE_SET, SET),
    (Operation.REVERSE, PLAIN),
    (Operation.REVERSE, SET),
    (Operation.FAILBACK, PLAIN),
    (Operation.FAILBACK_SET, SET),
    (Operation.REBALANCE, ()),
    (Operation.DEMOTE, ()),
    (Operation.RESTART, ()),
    (Operation.GROUP_GIVEN_UP, ()),
    (Operation.FAILOVER, PLAIN),
    (Operation.REVERSE_GIVEN_UP, PLAIN),
    (Operation.RESTORE_GIVEN_UP, PLAIN),
    (Operation.RESTORE, PLAIN),
    (Operation.FAILBACK, PLAIN),
)
"""One life. Mirrors to the target are there when partitions move: those of a failback run at the leader, all of them.
A second failback follows a restore.
"""
_CHAPTERS: Final = (
    tuple(at for at, each in enumerate(_LIFE[:12]) if each[1] == PLAIN and each[0] is not Operation.CREATE),
    tuple(at for at, each in enumerate(_LIFE) if each[1] == SET or each[0] is Operation.REBALANCE),
    tuple(range(_LIFE.index((Operation.FAILOVER, PLAIN)) - 1, len(_LIFE))),
)
"""Places in a life: one topic there and back, a set there and back, a failover and its failback."""
GIVEN_UP: Final = (
    Operation.PROMOTE_GIVEN_UP,
    Operation.GROUP_GIVEN_UP,
    Operation.REVERSE_GIVEN_UP,
    Operation.RESTORE_GIVEN_UP,
)
"""Operations that are made to end where they began: in the last systematic runs, and in some of the others."""


def plan(seed: int) -> RunPlan:
    """The run of a seed. In all but every eighth leaders of the target are lost, whatever else happens; in a quarter of
    those below FURTHER_FROM, whose links are not paused, clients are answered when both clusters have their records. In
    every third brokers stamp the records.
    """
    ack_both = seed % 4 == 1 and seed < FURTHER_FROM
    lost = _LEADERS_LOST if seed % 8 else 0
    return replace(_planned(seed), leaders_lost=lost, ack_both=ack_both, stamped=seed % 3 == 2)


def _planned(seed: int) -> RunPlan:
    if AS_ONE_FROM <= seed < RANDOM_FROM:
        run = as_one(seed)
        return with_call_offs(run) if seed >= AS_ONE_FROM + _AS_ONE_PAIRS else run
    if FURTHER_FROM <= seed < RANDOM_FROM:
        further_on = further(_random(seed), random.Random(f"further/{seed}"))
        run = with_owner(with_many_producers(on_unsteady_clusters(with_more_carried(on_thin_ground(further_on)))))
        return with_call_offs(run)
    return _random(seed) if seed >= systematic_runs() else systematic(seed)


def systematic_runs() -> int:
    """How many seeds from 0 on go through every pair once."""
    return max(len(steps) for steps in STEPS.values()) * len(FaultKind)


def systematic(number: int) -> RunPlan:
    """Each operation gets the pair of this number, counted round."""
    dice = random.Random(f"simulate/{number}")
    from_end = systematic_runs() - 1 - number
    acts = _acts(dice, {each for each in GIVEN_UP if from_end < len(STEPS[each]) * len(FaultKind)})
    faults, seen = [], set[Operation]()
    for act in acts:
        of = STEPS[act.operation]
        if act.operation in seen:
            continue  # one pair per kind of operation: a run in which everything breaks says less of each
        seen.add(act.operation)
        at = from_end if act.operation in GIVEN_UP else number
        step, kind = divmod(at % (len(of) * len(FaultKind)), len(FaultKind))
        faults.append(Fault(tuple(FaultKind)[kind], act.number, of[step], 0.0, _hold(dice)))
    return RunPlan(
        number, source_kafka=_version(number), acts=acts, faults=tuple(faults), cast=(NEWCOMER,), rate_per_s=_RATE
    )


def _random(seed: int) -> RunPlan:
    dice = random.Random(f"simulate/{seed}")
    left_out = set[int]() if seed >= RANDOM_FROM else _left_out(dice)
    acts = _acts(dice, {each for each in GIVEN_UP if dice.random() < 0.2}, left_out)
    kinds = tuple(FaultKind)
    faults = []
    for act in acts:
        for _ in range(dice.choice((0, 1, 2, 2))):
            at_step = dice.random() < 0.7
            step = dice.choice(STEPS[act.operation]) if at_step else ""
            delay_s = dice.choice((0.0, 0.0, dice.uniform(0.0, 0.3))) if at_step else dice.uniform(0.0, 4.0)
            faults.append(Fault(dice.choice(kinds), act.number, step, round(delay_s, 3), _hold(dice)))
    run = RunPlan(
        seed,
        gateways=dice.choice((1, 2, 3, 3)),
        source_kafka=_version(seed),
        acts=acts,
        faults=tuple(faults),
        events=_events(seed, acts),
    )
    return widened(run, random.Random(f"cast/{seed}"))


def _events(seed: int, acts: Sequence[Act]) -> tuple[Event, ...]:
    """A few, each where it may matter. With dice of their own: a seed has had its faults for longer than these."""
    dice, found = random.Random(f"events/{seed}"), []
    drawn = dice.sample(sorted(_EVENTS.items()), 3)
    kinds = {kind for kind, _ in drawn}
    for kind, (operation, steps, hold_s) in drawn:
        if kind is EventKind.MEMBER_ON_SOURCE and EventKind.STATE_REFUSED not in kinds:
            # Whoever comes there behind the last look at the members can be seen by nobody. Of a commit that was made
            # and not answered, the last look was before it.
            steps = steps[:-1]
        act = next((each for each in acts if each.operation is operation), None)
        if act is None:
            continue
        delay_s = 5.0 if kind is EventKind.GROUP_ASKS else 0.0  # its member has joined by then, on the source
        found.append(Event(kind, act.number, dice.choice(steps), delay_s, round(dice.uniform(0.5, 1.0) * hold_s, 2)))
    return tuple(sorted(found, key=lambda event: event.act))


def _left_out(dice: random.Random) -> set[int]:
    """Places of a life that a short story leaves out: all but one or two of its chapters."""
    kept = dice.sample(_CHAPTERS, dice.choice((1, 1, 1, 2)))
    return {at for chapter in _CHAPTERS if chapter not in kept for at in chapter}


def _acts(dice: random.Random, given_up: Collection[Operation], left_out: Collection[int] = ()) -> tuple[Act, ...]:
    life = [
        each for at, each in enumerate(_LIFE) if at not in left_out and (each[0] not in GIVEN_UP or each[0] in given_up)
    ]
    if (Operation.REVERSE_GIVEN_UP, PLAIN) in life:  # a topic that was failed over may be refused before it has begun
        at = life.index((Operation.FAILOVER, PLAIN))
        life[at : at + 1] = [(Operation.GROUP_PROMOTE, ()), (Operation.PROMOTE, PLAIN)]
    return tuple(
        Act(
            number,
            operation,
            topics,
            GROUP if operation in _OF_GROUP else "",
            round(dice.uniform(0.05, 0.5), 2),
            twice=dice.random() < 0.2,
        )
        for number, (operation, topics) in enumerate(life)
    )


def _hold(dice: random.Random) -> float:
    return round(dice.choice((dice.uniform(0.1, 1.0), dice.uniform(1.0, 4.0), dice.uniform(4.0, 12.0))), 2)


def _version(seed: int) -> str:
    return ("3.9.1", "4.3.1")[seed % 2]
