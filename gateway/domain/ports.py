"""What the planes ask of one another, as Protocols: proxy, mirror and control never import each other.

`app/` hands each its partners. Everything here is called on the one event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.domain.copy_ends import CopyEnds, PartitionEnd, Standing
from gateway.domain.membership import MirrorPartition
from gateway.domain.offset_map import OffsetMap
from gateway.domain.records import GroupRecord, LinkRecord, MirrorError, MirrorRecord, ProducerEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One mirrored partition, measured. Offsets are source offsets unless named target.

    `source_end` is the source's high watermark, `mirrored_to` the next source offset to mirror, `lag` their
    difference in records, `lag_ms` the age of the oldest record not yet mirrored (0 when lag is 0),
    `bytes_per_s` a 5-second moving rate. `phase`: starting | padding | copying | paused | failed | stopped.
    `bypassed_last_minute`: records of the last 60 s that no gateway forwarded (producer not moved yet).
    `segments`: of the offset map, 0 while source and target offsets are equal. `waits_for`: what the source waits for
    before it shows more records, "" when nothing is known.
    """

    partition: int
    phase: str
    source_end: int
    mirrored_to: int
    target_end: int
    lag: int
    lag_ms: int
    bytes_per_s: float
    records_total: int = 0
    bytes_total: int = 0
    bypassed_last_minute: int = 0
    last_error: str = ""
    segments: int = 0
    waits_for: str = ""


class MirrorEvents(Protocol):
    """What the engine tells the control plane."""

    def partition_failed(self, link: str, topic: str, partition: int, error: MirrorError, message: str) -> None:
        """The partition cannot be mirrored exactly; it has stopped for good."""

    def source_available(self, link: str, available: bool, message: str) -> None:
        """The link's source cluster was lost or found again."""

    def records_lost(self, link: str, topic: str, partition: int, first: int, following: int) -> None:
        """The source deleted these source offsets before they were mirrored, and the mirror goes on behind them."""

    def topic_settled(self, link: str, topic: str) -> None:
        """All partitions are padded: the topic may be read."""

    def topic_translated(self, link: str, topic: str, reason: str) -> None:
        """Offsets differ from here on, for `reason`: the topic's mode is translate now."""


class OffsetMaps(Protocol):
    """The offset maps of mirror topics in mode translate."""

    async def offset_maps(self, mirror: MirrorRecord) -> Sequence[OffsetMap]:
        """Of each partition, as of now.

        Raises:
            Exception: they cannot be read; the message is for the operator.
        """


class MirrorEngine(Protocol):
    """The mirror, as the control plane drives it. Topics are named by mirror topic."""

    async def start_link(self, link: LinkRecord) -> None:
        """Begin to keep connections to the link's source. Never raises for an unreachable source."""

    async def stop_link(self, link: str) -> None:
        """Stop all of the link's mirrors and close its connections."""

    def start_mirror(self, mirror: MirrorRecord) -> None:
        """Mirror all partitions from where the target's logs end. A running mirror is left as it is."""

    async def stop_mirror(self, link: str, topic: str) -> None:
        """Stop fetching and wait for the appends in flight."""

    def status(self, link: str, topic: str) -> Sequence[PartitionStatus]:
        """The partitions of a mirror the engine knows, in order; empty if it runs none."""

    def standing(self, mirror: MirrorRecord) -> Standing:
        """What of the mirror runs in this process, and how far it is. Cheap: asked at every look of a promote."""

    def ends(self, mirror: MirrorRecord) -> CopyEnds | None:
        """Where the mirror stands and what it knows of producers, in one answer of the partitions themselves.

        None unless all of them run in this process, as this record says, and are warm.
        """

    def partition_ends(self, mirror: MirrorRecord) -> Sequence[PartitionEnd | None]:
        """As `ends`, with whatever is known of each partition; None for one that does not run here."""


class OwnedMirrors(Protocol):
    """The mirror, as one of several gateways drives it: which partitions run in this process."""

    def own(self, partitions: frozenset[MirrorPartition] | None) -> None:
        """Of the mirrors that are started, now or later, run these partitions only; None: all of them."""

    def running(self) -> frozenset[MirrorPartition]:
        """What runs here."""

    async def release(
        self, partitions: frozenset[MirrorPartition]
    ) -> Mapping[MirrorPartition, Sequence[ProducerEntry]]:
        """Stop these here and wait for their appends, until `own` names them again.

        Returns the last batches of their producers, by offset of the origin: for `carry_over` where they run next.
        """

    def carry_over(self, tables: Mapping[MirrorPartition, Sequence[ProducerEntry]]) -> None:
        """What `release` gave elsewhere: the partitions that the next `own` starts begin with it."""

    async def quiet(self, topics: Collection[tuple[str, str]]) -> bool:
        """Wait until no append of stopped partitions of these (link, mirror topic) is in flight; False: not in time."""

    def status(self, link: str, topic: str) -> Sequence[PartitionStatus]:
        """The partitions that run here, in order."""

    def forwarded(self, topic: str, partition: int, base_offset: int, records: int) -> None:
        """A client's Produce was written to the source by some gateway."""


@dataclass(frozen=True, slots=True)
class FenceAck:
    """A gateway's answer to a fence: nothing of `topic` is being forwarded under an older epoch.

    `unknown_outcomes`: forwarded requests whose connection broke before the source answered.
    """

    gateway: str
    topic: str
    epoch: int
    unknown_outcomes: int


class Fences(Protocol):
    """The forwarder, as the promote sees it."""

    async def fence(self, topic: str, epoch: int) -> FenceAck:
        """Hold new writes to the topic (its route is FENCED by now) and wait until none is in flight."""

    async def hold_writes(self, topic: str, epoch: int) -> None:
        """Only the first half of a fence: new writes are held from here on. What is in flight goes on."""

    def held_up_by(self, topic: str) -> str:
        """What a fence of the topic waits for here, such as an open transaction; '' when nothing, or just an answer."""


class Coverage(Protocol):
    """Whom a fence covers beside the gateways that are asked. Times are monotonic seconds."""

    def lost(self) -> str:
        """Why a fence would not be acknowledged by all now, and until when; '' when nobody is lost."""

    def departed(self, since: float, acknowledged: Collection[str]) -> int:
        """Gateways that went since then without having acknowledged: their last writes may land yet."""

    def last_departure(self) -> float:
        """When the last gateway went; minus infinity when none has."""


class SourceTopics(Protocol):
    """What the proxy asks about a link's source."""

    async def exists_unmirrored(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Of `topics`, those that exist on a source and are not mirrored: name -> link name.

        Answers within 2 s; on an unreachable source every name that is not known to be absent counts as existing.
        """


class TopicPromoter(Protocol):
    """Promotes mirror topics; the control plane's runner of `domain` decisions."""

    async def promote(self, link: str, topics: Sequence[str], *, force: bool = False) -> Sequence[MirrorRecord]:
        """Promote the topics as one set and return their records, now STOPPED.

        States were validated by the caller; they may have changed since. Returns or raises only when the
        promote has ended: on an exception (its message is for the operator) all topics are unfenced and in the
        state before, with the reason in `error_message`.
        """

    def waiting_for(self, link: str, topic: str) -> str:
        """What a running promote of the topic waits for; '' when none runs or it does not wait."""


class GroupPromoter(Protocol):
    """Promotes and demotes mirror groups."""

    async def promote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        """Carry the group's offsets to the target and open its gate; returns when it is PROMOTED.

        Raises with a message for the operator when it cannot be; the group then stays gated.
        """

    async def demote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        """The way back: close the gate; the group may go on on the source from where it was on the target."""

    def waits_for(self, link: str, group: str) -> str:
        """Why the group is not promoted yet; '' when nothing is known."""
