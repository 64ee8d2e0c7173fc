"""A mirror topic in memory that is to be promoted: the ends of its logs, and the gateway that writes to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.control_parts import topic_promoter
from gateway.cutover.promote.promoter import TopicPromoter
from gateway.cutover.promote.rules.snapshot import PromoteLimits
from gateway.cutover.write_pause.interface import PauseAck, Stall
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.cutover.write_pause.rules.write_pause import Pause
from gateway.errors import SourceUnreachable
from gateway.groups.moves import GroupMoves
from gateway.kafka.connection.errors import NetError
from gateway.mirror.rules.copy_ends import PartitionEnd
from gateway.operations.origin_ends import Asked, LogEnds
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import LinkRecord, MirrorDirection, MirrorRecord, MirrorState, ProducerEntry
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed

LIMITS = PromoteLimits(lag_threshold=10, pause_timeout_s=0.3, grace_s=0.005, unknown_grace_s=0.05, source_timeout_s=0.2)
TABLE = ((ProducerEntry(2**49, 0, 0, 4, 95),), (), ())
FOLLOWING = ((100,), (), ())
COPY = -40
"""The copy counts otherwise: where the origin ends at 100, it ends at 60."""


@dataclass
class FakeEnds:
    """The source's ends. `on_read` is called at each reading, with its number."""

    ends: dict[str, list[int]] = field(default_factory=dict)
    hidden: int = 0
    down: bool = False
    failure: Exception = field(default_factory=lambda: SourceUnreachable("the source of link 'l': connection refused"))
    reads: int = 0
    transactions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    on_read: Callable[[int], None] = lambda number: None
    on_count: Callable[[], None] = lambda: None

    async def read(
        self,
        link: LinkRecord,
        topics: Mapping[str, int],
        timeout_s: float,
        asked: Asked = Asked.STABLE,
    ) -> Mapping[str, LogEnds]:
        if asked is Asked.COUNTS:
            self.on_count()
            if self.down:
                raise self.failure
            return {topic: LogEnds((), None, len(self.ends[topic])) for topic in topics}
        self.reads += 1
        self.on_read(self.reads)
        if self.down:
            raise self.failure
        unended = self.transactions if asked is Asked.TRANSACTIONS else {}
        return {t: replace(self._of(t, n), transactions=unended.get(t)) for t, n in topics.items()}

    def _of(self, topic: str, partitions: int) -> LogEnds:
        ends = self.ends[topic]
        known = tuple(ends[:partitions])
        return LogEnds(known, tuple(end + self.hidden for end in known), len(ends))


@dataclass
class FakeForwarder:
    """One gateway's writes. `silent`: it never acknowledges that nothing is in flight; `deaf`: nor that it gave it up.
    `mute`: it does not say whose requests waited. `older`: it knows of no groups that change sides with topics.

    `cuts`: the topics whose writes it gave up.
    """

    plane: Plane
    unknown: int = 0
    silent: bool = False
    deaf: bool = False
    mute: bool = False
    older: bool = False
    cuts: list[str] = field(default_factory=list)
    paused: list[tuple[str, int]] = field(default_factory=list)

    async def pause(self, pause: Pause) -> None:
        pass

    def blocked_by(self, topic: str) -> str:
        return ""

    async def drain(self, pause: Pause) -> PauseAck:
        phase = self.plane.routing.current.topics[pause.topic].phase
        assert phase is WritePhase.PAUSED
        self.paused.append((pause.topic, pause.epoch))
        if self.silent:
            await asyncio.Event().wait()
        groups = frozenset() if self.older else self.plane.parts.publisher.groups_of(pause)
        return PauseAck("any", pause.topic, pause.epoch, self.unknown, phase, groups)

    async def drain_all(self, pauses: Sequence[Pause]) -> Sequence[PauseAck]:
        return [await self.drain(pause) for pause in pauses]

    async def stalls(self, pause: Pause) -> Sequence[Stall]:
        if self.mute:
            raise NetError("it does not know")
        return [Stall("app", "10.0.0.7", 0.01 * pause.epoch), Stall("job", "10.0.0.8", 0.002)]

    async def cut(self, pause: Pause) -> None:
        if self.deaf:
            raise NetError("it did not answer")
        self.cuts.append(pause.topic)


class TopicScene:
    """A plane with one mirror of three partitions, level at 100, and its promoter. Its copy ends at 60."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.ends = FakeEnds()
        self.target_ends = FakeEnds()
        self.forwarder = FakeForwarder(plane)
        self.held: list[tuple[str, str]] = []
        self.spent: list[tuple[float, Mapping[str, float]]] = []  # of each write pause: seconds, the same by step
        self.gone_on: list[tuple[str, str]] = []
        self.phases: list[WritePhase] = []
        self.groups: GroupMoves | None = None
        plane.routing.subscribe(lambda routing, _changed: self.phases.append(routing.topics["orders"].phase))
        self.promoter = self.make()

    def make(self, limits: PromoteLimits = LIMITS) -> TopicPromoter:
        return topic_promoter(
            self.plane.parts,
            go_on=lambda link, topic: self.gone_on.append((link, topic)),
            pauses={"g": self.forwarder},
            limits=limits,
            groups=self.groups,
            ends=self.ends,
            target_ends=self.target_ends,
            on_pause_ended=self._pause_ended,
        )

    def _pause_ended(self, link: str, outcome: str, seconds: float, steps: Mapping[str, float]) -> None:
        self.held.append((link, outcome))
        self.spent.append((seconds, steps))

    async def mirror(self, topic: str = "orders") -> None:
        await self.plane.with_mirror(topic)
        self.ends.ends[topic] = [100, 100, 100]
        self.target_ends.ends[topic] = [0, 0, 0]
        self.mirrored(topic, 100)

    def mirrored(self, topic: str, position: int) -> None:
        """All partitions have come so far."""
        for partition in range(3):
            self.advance(topic, partition, position)

    def advance(self, topic: str, partition: int, position: int) -> None:
        """The mirror here has come so far, and its copy with it."""
        is_reverse = self.plane.store.mirrors["l", topic].is_reverse
        copies = self.ends if is_reverse else self.target_ends
        copies.ends[topic][partition] = position + COPY
        end = PartitionEnd(position, position + COPY, TABLE[partition], warm=True, following=FOLLOWING[partition])
        self.plane.engine.here.setdefault(("l", topic), {})[partition] = end
        self.plane.progress.advance(topic, partition, position)

    async def promote(self, *topics: str, groups: Sequence[str] = (), force: bool = False) -> list[MirrorRecord]:
        return list(await self.promoter.promote("l", topics or ("orders",), groups=groups, force=force))

    @property
    def record(self) -> MirrorRecord:
        return self.plane.store.mirrors["l", "orders"]

    async def turned_round(self, **changes: Any) -> MirrorRecord:
        """The mirror is one back to the source by now, and all that the source has of late is its own."""
        back = changed(self.record, direction=MirrorDirection.REVERSE, restore_configs={}, **changes)
        await self.plane.by_hand(back)
        link_id = self.plane.store.links["l"].link_id
        self.plane.source.writer = mirror_producer_id(link_id, back.mirror_id, back.failback.epoch, reverse=True)
        return back

    def assert_back(self) -> None:
        """Nothing was cut over: ACTIVE, forwarded, mirrored."""
        assert self.record.state is MirrorState.ACTIVE
        assert self.plane.routing.current.topics["orders"].phase is WritePhase.FORWARD
        assert ("l", "orders") in self.plane.engine.running


async def mirrored_topic(plane: Plane) -> TopicScene:
    """The topic `orders`, ready to be promoted."""
    made = TopicScene(plane)
    await made.mirror()
    made.phases.clear()
    return made
