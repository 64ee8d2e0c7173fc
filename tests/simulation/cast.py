"""Who else takes part in a run: a newcomer in every one; in random runs others, drawn by the seed, most with a topic
of their own.

A topic of the cast is created, promoted, taken back and home as the others are: `acts_of` puts that into a life.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.simulation.clients import Bypass, GroupMember, Newcomer, Pipeline, Producer
from tests.simulation.clients.client import Listener
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.plan import NEWCOMER, PLAIN, SET, TOPICS, Act, Event, EventKind, Operation, RunPlan
from tests.simulation.recorder import SOURCE, TARGET, Recorder

WEAK: Final = "weak"
"""Written with acks=1, with acks=0, and beside the gateways."""
TABLE: Final = "table"
"""Compacted."""
OUT: Final = "out"
"""What the pipeline writes."""
EXTRA: Final[Mapping[str, int]] = {WEAK: 1, TABLE: 1, OUT: 1}
"""Topic -> partitions."""
_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    TABLE: {"cleanup.policy": "compact"},
    WEAK: {"segment.ms": "1000", "retention.ms": "3000"},
}
COMMITTED: Final = "committed"
PIPE: Final = "pipe"

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

_RATE: Final = 6.0


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


@dataclass
class Cast:
    """The clients of a run that not every run has.

    Attributes:
        producers, members: all of them. A pipeline is a member.
        bypass: those that must have stopped when their topic is promoted.
        newcomer: the member of a group that the source does not know; not among `members`, which move.
    """

    producers: Sequence[Producer] = ()
    members: Sequence[GroupMember] = ()
    bypass: Sequence[Producer] = ()
    topics: tuple[str, ...] = ()
    newcomer: Newcomer | None = None

    @property
    def lossy(self) -> bool:
        """What was acknowledged may be lost with the leader."""
        return any(producer.acks != -1 for producer in self.producers)

    @property
    def to_end(self) -> Sequence[Producer]:
        """Those that must have come to an end in order at the end of the run."""
        return [*self.producers, *self.bypass]

    @classmethod
    def of(cls, plan: RunPlan, loop: SimLoop, source: ClusterModel, recorder: Recorder) -> Cast:
        """Make them, and create their topics on the source."""
        roles, at = plan.cast, source.bootstrap
        topics = topics_of(roles)
        for topic in topics:
            source.create_topic(topic, EXTRA[topic], 3, {"min.insync.replicas": "2", **_CONFIGS.get(topic, {})})

        def producer(name: str, topic: str, kind: type[Producer] = Producer, **options: Any) -> Producer:
            options.setdefault("side", SOURCE)
            return kind(loop, name, at, {topic: EXTRA[topic]}, recorder, rate_per_s=_RATE, **options)

        made: Mapping[str, Callable[[], Producer]] = {
            ACKS_1: lambda: producer("weak-1", WEAK, style="librdkafka", acks=1, max_in_flight=1),
            ACKS_0: lambda: producer("weak-0", WEAK, acks=0, idempotent=False),
            TABLE: lambda: producer("table", TABLE, keyspace=6),
        }
        members: list[GroupMember] = []
        shared: dict[tuple[str, str], int] = {}
        if COMMITTED in roles:
            members.append(
                GroupMember(loop, "committed-0", at, COMMITTED, SET, recorder, positions=shared, side=SOURCE)
            )
        if PIPE in roles:
            members.append(Pipeline(loop, "pipe-0", at, PIPE, PLAIN, recorder, output=(OUT, EXTRA[OUT]), side=SOURCE))
        return cls(
            producers=[make() for role, make in made.items() if role in roles],
            members=members,
            bypass=[producer("bypass", WEAK, Bypass)] if BYPASS in roles else [],
            topics=topics,
            newcomer=_newcomer(plan, loop, recorder) if NEWCOMER in roles else None,
        )

    def start(self, tell: Listener) -> None:
        """All of them, on the source."""
        for client in (*self.producers, *self.members, *self.bypass):
            client.on_error.append(tell)
            client.start()
        if self.newcomer is not None:
            self.newcomer.on_error.append(tell)

    async def created(self, topic: str, gateways: str) -> None:
        """A topic is mirrored: who writes it comes to the gateways, as the newcomer does for its last one."""
        if self.newcomer is not None:
            self.newcomer.mirrored(topic, gateways)
        for client in self.producers:
            if any(name == topic for name, _ in client.keys):
                await client.restart(gateways, TARGET)

    async def before_promote(self, topics: Sequence[str]) -> None:
        """Whoever writes beside the gateways is stopped before his topic is promoted."""
        for client in self.bypass:
            if client.running and any(topic in topics for topic, _ in client.keys):
                await client.stop()

    async def stop_producers(self) -> None:
        """At the end of a run."""
        for client in (*self.producers, *self.bypass):
            await client.stop()


def _newcomer(plan: RunPlan, loop: SimLoop, recorder: Recorder) -> Newcomer:
    mirrored = [topic for act in plan.acts if act.operation is Operation.CREATE for topic in act.topics]
    return Newcomer(loop, NEWCOMER, "", NEWCOMER, [topic for topic in mirrored if topic in TOPICS], recorder)


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
