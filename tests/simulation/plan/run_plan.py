"""The plan of one run: its operations in their order, and the faults and events at their steps. Written to a file and
read back as JSON; shrinking leaves parts of it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tests.simulation.plan.kinds import EventKind, FaultKind, Operation
from tests.simulation.plan.topics import ORDERS, OWNED


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
    """As `Fault`, of what is none. `hold_s`: how long it goes on, where it does. `side`: the cluster where it happens,
    of those kinds that can happen on either.
    """

    kind: EventKind
    act: int
    step: str = ""
    delay_s: float = 0.0
    hold_s: float = 2.0
    side: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """One operation. `number` names it, also where shrinking leaves others out. `pause_s` comes before.

    `how`: of an operation that can be done in several ways, see `operations/`.
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
    itself, once there is such a topic. `acls`: it copies the ACLs of its source; `schemas`: its registry.
    `asks`: dry runs are asked for before some operations, and metrics at rest. `cast`: who else takes part, see
    `roles.py`.
    `lease_s`: shorter than the longest pauses, so that leases do end. `in_order`: nothing of the run gives a producer
    a reason to begin a new epoch, nor ends a transaction but its client.
    `ack_both`: clients' writes are answered when they are on both clusters.
    `leaders_lost`: how often a leader of the target is lost between an append and its replication, see
    `faults/leaders_lost.py`.
    `stamped`: the topics of every run have LogAppendTime on the source.
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
    acls: bool = False
    schemas: bool = False
    asks: bool = False
    cast: tuple[str, ...] = ()
    rate_per_s: float = 20.0
    lease_s: float = 8.0
    in_order: bool = False
    ack_both: bool = False
    leaders_lost: int = 0
    stamped: bool = False
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


def joined_topics(run: RunPlan) -> frozenset[str]:
    """Topics of a run whose history is judged beside the others': by the names that they have on any cluster."""
    elsewhere = Operation.AGGREGATE, Operation.CHAIN, Operation.BOTH_WAYS
    names = {topic for act in run.acts if act.operation in elsewhere for topic in act.topics}
    names |= {topic for act in run.acts for topic in act.topics if topic == OWNED}
    return frozenset(names | {ORDERS}) if any(name.endswith(f".{ORDERS}") for name in names) else frozenset(names)
