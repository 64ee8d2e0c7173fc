"""What a simulated run does: operations in their order, and faults at their steps. Pure: worked out from a seed alone.

Every run is one life of a migration: topics are created and mirrored, clients move, groups and topics are promoted, go
home, are failed over and restored. A fault is tied to an operation and to a step of it, so that it strikes there and
not at a time that may mean nothing; or, in random runs, to a time after the operation began.

Which step x fault pairs there are is known before (`PAIRS`). The systematic runs go through all of them: run number n
gives each operation the n-th of its pairs. Seeds from `RANDOM_FROM` on draw two pairs and faults at random times for
each operation.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
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
    HOME = "home"
    HOME_SET = "home-set"
    DEMOTE = "demote"
    FAILOVER = "failover"
    RESTORE = "truncate-and-restore"
    REBALANCE = "rebalance"
    RESTART = "restart-in-order"
    PROMOTE_GIVEN_UP = "promote-given-up"
    GROUP_GIVEN_UP = "group-promote-given-up"
    REVERSE_GIVEN_UP = "reverse-given-up"
    RESTORE_GIVEN_UP = "truncate-and-restore-given-up"


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
    """What happens beside an operation, and is no fault of the fleet's or of a cluster's: without it some holes cannot
    be seen. Each was named by somebody who found a hole by reading.
    """

    GROUP_ASKS = "group-asks"
    """A group of another topic, not mirrored yet, asks a gateway for its offsets."""
    ANSWERS_LOST = "answers-lost"
    """What gateways answer to producers is lost for a while, and retried over whatever happens meanwhile."""
    STATE_UNANSWERED = "state-unanswered"
    """Commits of the state are made, and their answers lost."""
    STATE_REFUSED = "state-refused"
    """The state cannot be written for a while: its requests do not arrive."""
    PRODUCER_EARLY = "producer-early"
    """A producer comes to the gateways before its topic is there."""
    CREATE_UNANSWERED = "create-unanswered"
    """Topics are created on the target, and the answers lost."""
    FAILOVER_ASKED = "failover-asked"
    """Somebody fails the operation's first topic over meanwhile."""
    MEMBER_ON_SOURCE = "member-on-source"
    """A member comes back to the source, reads, commits and leaves."""
    MEMBER_KNOCKS = "member-knocks"
    """A member comes to those gateways that follow, and waits there."""
    NAME_TAKEN = "name-taken"
    """A follower is cut off from the target, and another process takes its name."""
    DELETE_DELAYED = "delete-delayed"
    """The broker to which the next DeleteTopics goes is stopped with it in its socket."""
    PARTITIONS_ADDED = "partitions-added"
    """The source topic gets a partition more, and somebody writes to it there."""
    TARGET_BROKER_PAUSED = "target-broker-paused"
    SOURCE_SLOW = "source-slow"
    """The source's answers take seconds."""
    SOURCE_NARROW = "source-narrow"
    """The source's answers come in a trickle: small ones at once, large ones after seconds."""
    CLOCKS_AHEAD = "clocks-ahead"
    """Gateways that follow are 16 minutes ahead from now on."""


_PROMOTE: Final = (
    "mark_pending",
    "fence",
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
    Operation.HOME: (*_PROMOTE[:-1], "restore_configs", "keep", "prepare", "start", "begin"),
    Operation.HOME_SET: (*_PROMOTE[:-1], "restore_configs", "keep", "prepare", "start", "begin"),
    Operation.DEMOTE: ("begin", "close_gate", "answered", "carry_back", "mark_active"),
    Operation.FAILOVER: ("begin", "hold", "drain", "stop_mirror", "log_ranges", "persist", "after"),
    Operation.RESTORE: ("read_source", "keep", "delete", "create", "prepare", "recreated", "start", "begin"),
    Operation.REBALANCE: ("begin", "assign", "assigned", "release"),
    Operation.RESTART: ("begin", "leave", "goodbye", "close"),
    Operation.PROMOTE_GIVEN_UP: ("unfence", "mark_active"),
    Operation.GROUP_GIVEN_UP: ("mark_active",),
    Operation.REVERSE_GIVEN_UP: ("abort",),
    Operation.RESTORE_GIVEN_UP: ("fail",),
}
"""Operation -> the steps at which a fault can strike, by the names that `steps.py` tells them by.

Not among them: `wait`, `await_mirror` and `done`, at which nothing is done; `check_members` of a group, which is for a
look at the members at the very instant of the reading of offsets, and between the two a request has passed here; a
gate's opening, which the record of `mark_promoted` brings along.
"""

Pair = tuple[Operation, str, FaultKind]

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
    """One operation. `number` names it, also where shrinking leaves others out. `pause_s` comes before."""

    number: int
    operation: Operation
    topics: tuple[str, ...] = ()
    group: str = ""
    pause_s: float = 0.5
    twice: bool = False


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A whole run.

    `brief`: only the clients of topics that are created; their producers move onto the gateways behind the last create.
    `synced`: the offsets of groups are synced all the time.
    """

    seed: int
    gateways: int = 3
    source_kafka: str = "3.9.1"
    acts: tuple[Act, ...] = ()
    faults: tuple[Fault, ...] = ()
    bypass: bool = False
    events: tuple[Event, ...] = ()
    brief: bool = False
    synced: bool = False
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
        return cls(**{**value, "acts": tuple(acts), "faults": tuple(faults), "events": tuple(events)})

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
GROUP: Final = "readers"
RANDOM_FROM: Final = 100_000
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
    (Operation.HOME, PLAIN),
    (Operation.HOME_SET, SET),
    (Operation.REBALANCE, ()),
    (Operation.DEMOTE, ()),
    (Operation.RESTART, ()),
    (Operation.GROUP_GIVEN_UP, ()),
    (Operation.FAILOVER, PLAIN),
    (Operation.REVERSE_GIVEN_UP, PLAIN),
    (Operation.RESTORE_GIVEN_UP, PLAIN),
    (Operation.RESTORE, PLAIN),
    (Operation.HOME, PLAIN),
)
"""One life. Mirrors to the target are there when partitions move: those of a way back run at the leader, all of them.
A second way home follows a restore.
"""
GIVEN_UP: Final = (
    Operation.PROMOTE_GIVEN_UP,
    Operation.GROUP_GIVEN_UP,
    Operation.REVERSE_GIVEN_UP,
    Operation.RESTORE_GIVEN_UP,
)
"""Operations that are made to end where they began: in the last systematic runs, and in some of the others."""


def plan(seed: int) -> RunPlan:
    """The run of a seed."""
    return _random(seed) if seed >= RANDOM_FROM else systematic(seed)


def systematic_runs() -> int:
    """How many seeds from 0 on go through every pair once."""
    return max(len(steps) for steps in STEPS.values()) * len(FaultKind)


def systematic(number: int) -> RunPlan:
    """Each operation gets the pair of this number, counted round; with every lap holds and delays differ."""
    dice = random.Random(f"simulate/{number}")
    from_end = systematic_runs() - 1 - number % systematic_runs()
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
    return RunPlan(number, source_kafka=_version(number), acts=acts, faults=tuple(faults))


def _random(seed: int) -> RunPlan:
    dice = random.Random(f"simulate/{seed}")
    acts = _acts(dice, {each for each in GIVEN_UP if dice.random() < 0.2})
    kinds = tuple(FaultKind)
    faults = []
    for act in acts:
        for _ in range(dice.choice((0, 1, 2, 2))):
            at_step = dice.random() < 0.7
            step = dice.choice(STEPS[act.operation]) if at_step else ""
            delay_s = dice.choice((0.0, 0.0, dice.uniform(0.0, 0.3))) if at_step else dice.uniform(0.0, 4.0)
            faults.append(Fault(dice.choice(kinds), act.number, step, round(delay_s, 3), _hold(dice)))
    return RunPlan(
        seed,
        gateways=dice.choice((1, 2, 3, 3)),
        source_kafka=_version(seed),
        acts=acts,
        faults=tuple(faults),
        bypass=dice.random() < 0.1,
    )


def _acts(dice: random.Random, given_up: Collection[Operation]) -> tuple[Act, ...]:
    life = [each for each in _LIFE if each[0] not in GIVEN_UP or each[0] in given_up]
    return tuple(
        Act(
            number,
            operation,
            topics,
            GROUP if operation in _OF_GROUP else "",
            round(dice.uniform(0.1, 1.5), 2),
            twice=dice.random() < 0.2,
        )
        for number, (operation, topics) in enumerate(life)
    )


def _hold(dice: random.Random) -> float:
    return round(dice.choice((dice.uniform(0.1, 1.0), dice.uniform(1.0, 4.0), dice.uniform(4.0, 12.0))), 2)


def _version(seed: int) -> str:
    return ("3.9.1", "4.3.1")[seed % 2]
