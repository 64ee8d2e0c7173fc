"""What a simulated run does: operations in their order, and faults at their steps. Pure: worked out from a seed alone.

Every run is one life of a migration: topics are created and mirrored, clients move, groups and topics are promoted,
fail back
, are failed over and restored. A fault is tied to an operation and to a step of it, so that it strikes there and
not at a time that may mean nothing; or, in random runs, to a time after the operation began.

Which step x fault pairs there are is known before (`PAIRS`). The systematic runs come first and go through all of them:
run number n gives each operation the n-th of its pairs. The seeds behind them draw pairs and faults at random times for
each operation; their stories are shorter, one or two topics' worth, and whole lives again from `RANDOM_FROM` on. Those
from `FURTHER_FROM` to there have more in them (`further.py`).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final


class Operation(StrEnum):
    """What an operator, or the fleet itself, does."""

    CREATE = "create"
    GROUP_PROMOTE = "group-promote"
    PROMOTE = "promote"
    PROMOTE_SET = "promote-set"
    REVERSE = "reverse"
    FAILBACK = "failback"
    FAILBACK_SET = "failback-set"
    DEMOTE = "demote"
    FAILOVER = "failover"
    RESTORE = "truncate-and-restore"
    REBALANCE = "rebalance"
    RESTART = "restart-in-order"
    PROMOTE_GIVEN_UP = "promote-given-up"
    GROUP_GIVEN_UP = "group-promote-given-up"
    REVERSE_GIVEN_UP = "reverse-given-up"
    RESTORE_GIVEN_UP = "truncate-and-restore-given-up"
    RELINK = "relink"
    UNMIRROR = "unmirror"
    UPDATE_LINK = "update-link"
    AUTO_CREATE = "auto-create"
    SPOIL = "spoil"
    REPAIR = "repair"
    AGGREGATE = "aggregate"
    CHAIN = "chain"
    FAN_OUT = "fan-out"
    PROMOTE_JOINED = "promote-joined"


class FaultKind(StrEnum):
    """What breaks. All of it keeps Kafka's promises: no broker loses what was acknowledged with acks=all."""

    LEADER_LEAVES = "leader-leaves"
    LEADER_KILLED = "leader-killed"
    LEADER_PAUSED = "leader-paused"
    FOLLOWER_LEAVES = "follower-leaves"
    FOLLOWER_KILLED = "follower-killed"
    FOLLOWER_PAUSED = "follower-paused"
    PARTITION_MOVES = "partition-moves"
    GATEWAY_JOINS = "gateway-joins"
    TARGET_COORDINATOR_MOVES = "target-coordinator-moves"
    SOURCE_COORDINATOR_MOVES = "source-coordinator-moves"
    SOURCE_LEADER_MOVES = "source-leader-moves"
    SOURCE_LEADER_LOST = "source-leader-lost"
    TARGET_LEADER_MOVES = "target-leader-moves"
    TARGET_LEADER_LOST = "target-leader-lost"
    ANSWER_LOST_SOURCE = "answer-lost-source"
    ANSWER_LOST_TARGET = "answer-lost-target"
    ANSWER_LOST_PEER = "answer-lost-peer"
    CUT_FROM_TARGET = "cut-from-target"
    CLOCK_JUMPS = "clock-jumps"


class EventKind(StrEnum):
    """What happens beside an operation, and is no fault of the fleet's or of a cluster's: without it some gaps cannot
    be seen. Each was named by somebody who found an offset gap by reading.
    """

    GROUP_ASKS = "group-asks"
    """A group of another topic, not mirrored yet, asks a gateway for its offsets."""
    ANSWERS_LOST = "answers-lost"
    """What gateways answer to producers is lost for a while, and retried over whatever happens meanwhile."""
    STATE_UNANSWERED = "state-unanswered"
    """Commits of the state are made, and their answers lost."""
    STATE_UNHEARD = "state-unheard"
    """The next commit of the state is made, and nothing of the target reaches its gateway for a while."""
    STATE_REFUSED = "state-refused"
    """The state cannot be written for a while: its requests do not arrive."""
    STATE_LATE = "state-late"
    """Gateways that follow read the state late: nothing of the broker that leads it reaches them."""
    ASSIGNMENT_LATE = "assignment-late"
    """The next assignment of the fleet comes late to gateways that follow."""
    PRODUCER_EARLY = "producer-early"
    """A producer comes to the gateways before its topic is there."""
    CREATE_UNANSWERED = "create-unanswered"
    """Topics are created on the target, and the answers lost."""
    FAILOVER_ASKED = "failover-asked"
    """Somebody fails the operation's first topic over meanwhile."""
    MEMBER_ON_SOURCE = "member-on-source"
    """A member comes back to the source, reads, commits and leaves."""
    FIRST_REQUEST = "member-first requests"
    """A member comes to those gateways that follow, and waits there."""
    NAME_TAKEN = "name-taken"
    """A follower is cut off from the target, and another process takes its name."""
    COPY_REPLACED = "copy-replaced"
    """Somebody deletes the operation's topic on the target, and creates another one of its name."""
    DELETE_DELAYED = "delete-delayed"
    """The broker to which the next DeleteTopics goes is stopped with it in its socket."""
    MAP_UNKNOWN = "map-unknown"
    """Brokers of the target lag behind their controller: they do not know of the topic of the offset map."""
    SOURCE_HEARS_LATE = "source-hears-late"
    """Brokers of the source that do not lead the operation's topic hear of topics' creation and deletion late."""
    KILLED_OFTEN = "killed-often"
    """A gateway is killed again and again within a session of the fleet's group, also while it starts."""
    TARGET_LOSES = "target-loses"
    """The target's leader dies with the last records, which it has acknowledged: no other replica has them."""
    SOURCE_REWRITTEN = "source-rewritten"
    """The source's leader dies with the last records; somebody writes as many others in their place."""
    PROMOTE_ASKED = "promote-asked"
    """Somebody asks the leader itself for a promote, while others wait for the answer of a follower."""
    REVERSE_ASKED = "reverse-asked"
    """Somebody asks for a reverse of the operation's first topic, which may be refused."""
    PARTITIONS_ADDED = "partitions-added"
    """The source topic gets a partition more, and somebody writes to it there."""
    TARGET_BROKER_PAUSED = "target-broker-paused"
    SOURCE_DOWN = "source-down"
    """Nothing of the source reaches gateways: to them it is dead."""
    SOURCE_LEADER_CUT = "source-leader-cut"
    """The same of the broker that leads a partition."""
    SOURCE_LEADER_MOVES_AWAY = "source-leader-moves-away"
    """The leader of a partition can be reached by no gateway, and another broker leads."""
    SOURCE_SLOW = "source-slow"
    """The source's answers take seconds."""
    SOURCE_NARROW = "source-narrow"
    """The source's answers come in a trickle: small ones at once, large ones after seconds."""
    CLOCKS_AHEAD = "clocks-ahead"
    """Gateways that follow are 16 minutes ahead from now on."""
    COMPACTED = "compacted"
    """The log cleaner does its work on the compacted topic of either cluster."""
    RECORDS_DELETED = "records-deleted"
    """Half of a topic is deleted where it is written."""
    RETAINED = "retained"
    """Retention does its work where a topic is written."""
    HALF_A_FRAME = "half-a-frame"
    """The next long request of a gateway arrives by half, and its connection breaks."""
    CUT_ONE_WAY = "cut-one-way"
    """Nothing of a gateway reaches one of the brokers, which reach it."""
    SOURCE_BROKER_PAUSED = "source-broker-paused"
    END_HELD = "end-held"
    """A gateway hears nothing of the target when a client asks it to end a transaction; the client goes on by another
    gateway, and then the first one has the target back."""
    END_ON_ITS_WAY = "end-on-its-way"
    """The same, of a gateway whose request to end it is on its way to the source, and gets no further."""
    COMMITTED_ELSEWHERE = "committed-elsewhere"
    """The group has an offset on the source of a topic that is not mirrored yet."""


_PROMOTE: Final = (
    "mark_pending",
    "pause_writes",
    "read_ends",
    "stop_mirror",
    "read_copy",
    "persist_stopped",
    "publish_switched",
    "restore_configs",
)
_BACK: Final = ("read_source", "keep", "prepare", "synchronized", "start", "begin")

STEPS: Final[Mapping[Operation, tuple[str, ...]]] = {
    Operation.CREATE: ("begin", "intent", "read_by_all", "create_topic", "store"),
    Operation.GROUP_PROMOTE: (
        "mark_pending",
        "read_offsets",
        "commit",
        "read_back",
        "mark_promoted",
    ),
    Operation.PROMOTE: _PROMOTE,
    Operation.PROMOTE_SET: _PROMOTE,
    Operation.REVERSE: _BACK,
    Operation.FAILBACK: (*_PROMOTE[:-1], "restore_configs", "keep", "prepare", "start", "begin"),
    Operation.FAILBACK_SET: (*_PROMOTE[:-1], "restore_configs", "keep", "prepare", "start", "begin"),
    Operation.DEMOTE: (
        "check_target",
        "close_gate",
        "await_commits",
        "check_members",
        "read_offsets",
        "commit",
        "mark_active",
        "open_gate",
    ),
    Operation.FAILOVER: (
        "begin",
        "read_source",
        "pause_writes",
        "drain",
        "read_last",
        "stop_mirror",
        "read_copy",
        "persist",
        "release",
        "restore_configs",
        "tell_groups",
    ),
    Operation.RESTORE: ("read_source", "keep", "delete", "create", "prepare", "recreated", "start", "begin"),
    Operation.REBALANCE: ("begin", "assign", "assigned", "release"),
    Operation.RESTART: ("begin", "leave", "goodbye", "close"),
    Operation.PROMOTE_GIVEN_UP: ("resume_writes", "mark_active"),
    Operation.GROUP_GIVEN_UP: ("mark_active",),
    Operation.REVERSE_GIVEN_UP: ("abort",),
    Operation.RESTORE_GIVEN_UP: ("fail",),
}
"""Operation -> the steps at which a fault can strike, by the names that `steps.py` tells them by.

Not among them: `wait`, `await_mirror` and `done`, at which nothing is done; those of `MORE_STEPS`; `check_members` of a
group promote, which is for a look at the members at the very instant of the reading of offsets, and between the two a
request has passed here; a gate's opening, which the record of `mark_promoted` brings along.
"""

_JOIN: Final = ("create_link", "begin", "intent", "read_by_all", "create_topic", "store")
MORE_STEPS: Final[Mapping[Operation, tuple[str, ...]]] = {
    Operation.FAILOVER: ("settle", "take_back"),
    Operation.DEMOTE: ("settle",),
    Operation.RELINK: ("delete_link", "create_link"),
    Operation.UNMIRROR: ("delete_mirror", "carry_out", "delete_topic"),
    Operation.UPDATE_LINK: ("try", "store", "apply"),
    Operation.AUTO_CREATE: ("list_topics", "begin", "intent", "read_by_all", "create_topic", "store"),
    Operation.PROMOTE: ("read_configs",),
    Operation.REPAIR: (
        "plan",
        "resume",
        "recreate",
        "delete_replaced",
        "intent",
        "read_by_all",
        "create_topic",
        "store",
    ),
    Operation.AGGREGATE: _JOIN,
    Operation.CHAIN: _JOIN,
    Operation.FAN_OUT: _JOIN,
    Operation.PROMOTE_JOINED: _PROMOTE,
}
"""Steps of the runs from FURTHER_FROM on (`further.py`). `settle` and `take_back` are taken only where a change of the
state is refused, or not known to be made, for which these runs have an event.
"""

BUILT_FIRST: Final = (Operation.AGGREGATE, Operation.CHAIN, Operation.FAN_OUT)
"""Operations that put clusters and gateways together before they begin."""
JOINED: Final = (*BUILT_FIRST, Operation.PROMOTE_JOINED)
"""Operations of other links than the run's own, or of another fleet."""

Pair = tuple[Operation, str, FaultKind]

MORE_PAIRS: Final[tuple[Pair, ...]] = tuple(
    (operation, step, fault) for operation, steps in MORE_STEPS.items() for step in steps for fault in FaultKind
)
"""Those of `MORE_STEPS`, counted beside the others."""
PAIRS: Final[tuple[Pair, ...]] = tuple(
    (operation, step, fault) for operation, steps in STEPS.items() for step in steps for fault in FaultKind
)
"""Every step x fault pair."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. It strikes `delay_s` after the act of this number takes `step` for the first time; without a step,
    after the act began. `hold_s`: how long what is stopped stays so.
    """

    kind: FaultKind
    act: int
    step: str = ""
    delay_s: float = 0.0
    hold_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Event:
    """As `Fault`, of what is none. `hold_s`: how long it goes on, where it does."""

    kind: EventKind
    act: int
    step: str = ""
    delay_s: float = 0.0
    hold_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Act:
    """One operation. `number` names it, also where shrinking leaves others out. `pause_s` comes before.

    `how`: of an operation that can be done in several ways, see `acts.py`.
    """

    number: int
    operation: Operation
    topics: tuple[str, ...] = ()
    group: str = ""
    pause_s: float = 0.5
    twice: bool = False
    how: str = ""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A whole run.

    `brief`: only the clients of topics that are created; their producers move onto gateways behind the last create.
    `synced`: the offsets of groups are synced all the time. `auto_create`: the link creates the mirror of `AUTO` by
    itself, once there is such a topic. `cast`: who else takes part, see `cast.py`.
    `lease_s`: shorter than the longest pauses, so that leases do end. `in_order`: nothing of the run gives a producer
    a reason to begin a new epoch, nor ends a transaction but its client.
    """

    seed: int
    gateways: int = 3
    source_kafka: str = "3.9.1"
    acts: tuple[Act, ...] = ()
    faults: tuple[Fault, ...] = ()
    events: tuple[Event, ...] = ()
    brief: bool = False
    synced: bool = False
    auto_create: bool = False
    cast: tuple[str, ...] = ()
    rate_per_s: float = 20.0
    lease_s: float = 8.0
    in_order: bool = False
    notes: str = field(default="", compare=False)

    def as_json(self) -> dict[str, Any]:
        """For a file; `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunPlan:
        """The plan that `as_json` wrote."""
        acts = (
            Act(**{**act, "operation": Operation(act["operation"]), "topics": tuple(act["topics"])})
            for act in value["acts"]
        )
        faults = (Fault(**{**fault, "kind": FaultKind(fault["kind"])}) for fault in value["faults"])
        events = (Event(**{**event, "kind": EventKind(event["kind"])}) for event in value.get("events", ()))
        cast = tuple(value.get("cast", ()))
        return cls(**{**value, "acts": tuple(acts), "faults": tuple(faults), "events": tuple(events), "cast": cast})

    def without(
        self,
        *,
        acts: frozenset[int] = frozenset(),
        faults: frozenset[int] = frozenset(),
        events: frozenset[int] = frozenset(),
    ) -> RunPlan:
        """The same run without the acts of these numbers, and what happens at them, and without the faults and the
        events at these places.
        """
        return replace(
            self,
            acts=tuple(act for act in self.acts if act.number not in acts),
            faults=tuple(f for at, f in enumerate(self.faults) if at not in faults and f.act not in acts),
            events=tuple(e for at, e in enumerate(self.events) if at not in events and e.act not in acts),
        )


PLAIN: Final = ("plain",)
SET: Final = ("tx-a", "tx-b")
TOPICS: Final[Mapping[str, int]] = {"plain": 2, "tx-a": 1, "tx-b": 1}
"""Topic -> partitions."""
AUTO: Final = "auto"
"""A topic that comes to be on the source in the runs that have `auto_create`."""
MENDED: Final = "mended"
"""A topic whose mirror is made to fail, and repaired."""
ORDERS: Final = "orders"
NORTH, EAST = "north.", "east."
"""A topic of two sources, and the prefixes of the links that mirror it to one target."""
CHAINED: Final = "chained"
"""A topic that is mirrored to the target, and from there to a third cluster."""
FANNED: Final = "fanned"
"""A topic that is mirrored to the target and to a third cluster."""
GROUP: Final = "readers"
NEWCOMER: Final = "newcomer"
"""A role of every run's cast, and its group, which the source does not know."""
FURTHER_FROM: Final = 2_000
RANDOM_FROM: Final = 100_000
_RATE: Final = 10.0
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
    """The run of a seed."""
    if FURTHER_FROM <= seed < RANDOM_FROM:
        from tests.simulation.further import further

        return further(_random(seed), random.Random(f"further/{seed}"))
    return _random(seed) if seed >= systematic_runs() else systematic(seed)


def joined_topics(run: RunPlan) -> frozenset[str]:
    """Topics of a run whose history is judged beside the others': by the names that they have on any cluster."""
    names = {
        topic for act in run.acts if act.operation in (Operation.AGGREGATE, Operation.CHAIN) for topic in act.topics
    }
    return frozenset(names | {ORDERS}) if any(name.endswith(f".{ORDERS}") for name in names) else frozenset(names)


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
    from tests.simulation.cast import widened

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
