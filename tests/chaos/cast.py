"""Who takes part: topics, producers, groups and readers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.chaos.clients.actor import Actor, Positions
from tests.chaos.clients.java import JavaActor, JavaMember, JavaPipeline, JavaProducer
from tests.chaos.clients.pipeline import GROUP, OUTPUT, OUTPUT_PARTITIONS
from tests.chaos.clients.producers import (
    Keys,
    LibrdkafkaProducer,
    TransactionalProducer,
)
from tests.chaos.clients.python_producer import ONCE, KafkaPythonProducer
from tests.chaos.clients.readers import KafkaPythonMember, LibrdkafkaMember, Member, Reader
from tests.support.clients.recorder import Recorder

SETS: Final[dict[str, dict[str, int]]] = {
    "plain": {"plain-a": 3, "plain-b": 2},
    "transactional": {"tx-a": 2, "tx-b": 2},
    "processed": {OUTPUT: OUTPUT_PARTITIONS},
}
"""Sets that are promoted as one: topic -> partitions. What the pipeline writes goes with its group."""

STEADY: Final = {"steady": 3}
"""Mirrored all the time, so that each end of a gateway is a hand-over that can be measured."""
TOPICS: Final = {**{topic: count for each in SETS.values() for topic, count in each.items()}, **STEADY}
"""All topics from the beginning: name -> partitions."""

_CLASSIC: Final = ("g-librdkafka", "g-python", "g-java", "g-committed", GROUP)
_SINCE_4: Final = ("g-848", "g-java-848")
EXTRA_RATE: Final = 20.0
HUNG_S: Final = 60.0


def groups_of(source_kafka: str) -> tuple[str, ...]:
    """Groups of a run: those of KIP-848 need brokers of 4.0 and later on both sides."""
    return _CLASSIC if source_kafka.startswith("3.") else (*_CLASSIC, *_SINCE_4)


def keys(*topics: str) -> Keys:
    """Every partition of these topics."""
    return [(topic, partition) for topic in topics for partition in range(TOPICS[topic])]


class Cast:
    """All clients. `extras`: producers of topics that are created on the way."""

    def __init__(self, recorder: Recorder, seed: int, groups: Sequence[str]) -> None:
        self.recorder = recorder
        self.producers: list[Actor] = [
            LibrdkafkaProducer(recorder, "rd-idempotent", keys("plain-a", "plain-b"), 80.0),
            KafkaPythonProducer(recorder, "python-once", keys("plain-a"), 20.0, ONCE),
            KafkaPythonProducer(recorder, "python", keys("plain-b"), 30.0),
            JavaProducer(recorder, "java", keys("plain-a", "plain-b"), 30.0),
            LibrdkafkaProducer(recorder, "rd-steady", keys(*STEADY), 45.0),
            TransactionalProducer(recorder, "rd-transactions", keys("tx-a", "tx-b"), 40.0, seed),
        ]
        self._positions: dict[str, Positions] = {}  # members of a group share them
        plain, committed = ("plain-a", "plain-b"), ("tx-a", "tx-b")
        members: dict[str, list[Member | JavaMember]] = {
            "g-librdkafka": [self._librdkafka("g-librdkafka", n, plain) for n in range(2)],
            "g-python": [KafkaPythonMember(recorder, "g-python-0", "g-python", plain[:1], Positions())],
            "g-java": [JavaMember(recorder, "g-java-0", "g-java", plain[1:])],
            "g-committed": [self._librdkafka("g-committed", 0, committed)],
            GROUP: [JavaPipeline(recorder, "pipeline", GROUP, plain[1:], OUTPUT, OUTPUT_PARTITIONS)],
            "g-848": [self._librdkafka("g-848", n, plain, "consumer") for n in range(2)],
            "g-java-848": [JavaMember(recorder, "g-java-848-0", "g-java-848", committed, "consumer")],
        }
        self.members = {group: members[group] for group in groups}
        self.at_source = Reader(recorder, "reader-source", keys(*TOPICS))
        self.at_gateway = Reader(recorder, "reader-gateway", keys(*TOPICS))
        self.at_target = Reader(recorder, "reader-target", keys(*TOPICS))
        self.extras: list[LibrdkafkaProducer] = []
        self.hung_for: dict[Member | JavaMember, Member] = {}  # who hangs, by who took its place

    def _librdkafka(
        self, group: str, number: int, topics: Sequence[str], protocol: str = "classic"
    ) -> LibrdkafkaMember:
        positions = self._positions.setdefault(group, Positions())
        return LibrdkafkaMember(self.recorder, f"{group}-{number}", group, topics, positions, protocol)

    def replace_hung(self, member: Member | JavaMember) -> KafkaPythonMember:
        """Leave a member alone whose library hangs before its brokers, without a gateway; another one, to be started.

        Seen of kafka-python 3: after a SyncGroup that the broker had answered, `poll` never came back.

        Raises:
            AssertionError: it is a client of the gateways, or of a library that does not hang.
        """
        assert isinstance(member, KafkaPythonMember), f"{member.name} hangs"
        assert member.side == "source", f"{member.name} hangs, before the gateways"
        assert member not in self.hung_for, f"{member.name} hangs again"
        member.ask_to_stop()
        members = self.members[member.group]
        name = f"{member.name}-again"
        new = KafkaPythonMember(self.recorder, name, member.group, member.topics, member.positions)
        members[members.index(member)] = new
        self.hung_for[new] = member
        return new

    def go_on_without_hung(self, late: Iterable[Member | JavaMember], since: float) -> None:
        """Replace those of kafka-python that came to nothing for `HUNG_S`, before their brokers, without a gateway.

        Args:
            since: when all of them had their chance, by the monotonic clock.
        """
        if time.monotonic() - since < HUNG_S:
            return
        for one in late:
            if isinstance(one, KafkaPythonMember) and one.side == "source" and one not in self.hung_for:
                self.replace_hung(one).start(one.bootstrap, one.side)

    @property
    def hung(self) -> list[str]:
        """Clients whose library came to nothing, and lives of producers that did."""
        return [*(one.name for one in self.hung_for.values()), *(life for one in self.everybody for life in one.hung)]

    @property
    def readers(self) -> list[Reader]:
        """Those of no group."""
        return [self.at_source, self.at_gateway, self.at_target]

    @property
    def pipeline(self) -> JavaPipeline:
        """It reads, and it writes."""
        (one,) = self.members[GROUP]
        assert isinstance(one, JavaPipeline)
        return one

    @property
    def all_members(self) -> list[Member | JavaMember]:
        """Of every group."""
        return [member for members in self.members.values() for member in members]

    @property
    def everybody(self) -> list[Actor]:
        """Every client."""
        return [*self.producers, *self.extras, *self.all_members, *self.readers]

    @property
    def histories(self) -> list[Path]:
        """Files that clients wrote beside the recorder."""
        return [path for one in self.everybody if isinstance(one, JavaActor) for path in one.histories if path.exists()]

    def extra(self, topic: str) -> LibrdkafkaProducer:
        """A producer for one more topic."""
        self.extras.append(LibrdkafkaProducer(self.recorder, f"rd-{topic}", [(topic, 0)], EXTRA_RATE))
        return self.extras[-1]
