"""The clients that not every run has, as its plan says (`plan/roles.py`); and the newcomer, whom every run has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.clients import Bypass, GroupMember, Newcomer, OldApiPipeline, Pipeline, Producer
from tests.simulation.clients.client import Listener
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.plan import NEWCOMER, PLAIN, SET, TOPICS, Operation, RunPlan
from tests.simulation.plan.roles import (
    ACKS_0,
    ACKS_1,
    BYPASS,
    COMMITTED,
    EXTRA,
    OLD_API,
    OUT,
    PIPE,
    TABLE,
    WEAK,
    topics_of,
)
from tests.simulation.recorder import SOURCE, TARGET, Recorder

_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    TABLE: {"cleanup.policy": "compact"},
    WEAK: {"segment.ms": "1000", "retention.ms": "3000"},
}
_RATE: Final = 6.0


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
    _mirrored: set[str] = field(default_factory=set)

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
            kind = OldApiPipeline if OLD_API in roles else Pipeline
            members.append(kind(loop, "pipe-0", at, PIPE, PLAIN, recorder, output=(OUT, EXTRA[OUT]), side=SOURCE))
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
        self._mirrored.add(topic)
        for pipeline in self.members:
            if not isinstance(pipeline, OldApiPipeline) or pipeline.producer_at:
                continue
            if self._mirrored >= {*pipeline.topics, pipeline.output[0]}:
                pipeline.producer_at = gateways  # its consumer stays
                await pipeline.restart()

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
