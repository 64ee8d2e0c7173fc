"""The mirror as those above it drive it, and what it tells them. Everything is called on the one event loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.mirror.partition.rules.producer_table import CarriedTable
from gateway.mirror.rules.copy_ends import CopyEnds, PartitionEnd, RunningPartitions
from gateway.mirror.rules.period import MirrorPartition
from gateway.state.records import LinkRecord, MirrorError, MirrorRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One mirrored partition, measured. Offsets are source offsets unless named target.

    `source_end` is the source's high watermark, `mirrored_to` the next source offset to mirror, `lag` their
    difference in records, `lag_ms` the age of the oldest record not yet mirrored (0 when lag is 0); each is None while
    it is not known, as before the first answer of a cluster.
    `bytes_per_s` a 5-second moving rate. `phase`: starting | padding | copying | paused | failed | stopped.
    `bypassed_last_minute`: records of the last 60 s that no gateway forwarded (producer not migrated yet).
    `segments`: of the offset map, 0 while source and target offsets are equal. `waits_for`: what the source waits for
    before it shows more records, or the mirror before it copies them, "" when nothing is known. `source_start`: the
    source's log start, None while it is not known. `merged_total`: batches that were appended as a part of a merged
    one. `leader_bytes_total`, `follower_bytes_total`: of records that the source's leaders and its other replicas have
    sent. `queued_bytes`: memory of what was fetched and is not known to be on the target yet. `missing_ids`: of
    schemas, in records that are not copied until the id map has them; `ids_written_total`: ids that were written anew.
    Both of topics with `translates_ids` only.
    """

    partition: int
    phase: str
    source_end: int | None
    mirrored_to: int | None
    target_end: int
    lag: int | None
    lag_ms: int | None
    bytes_per_s: float
    records_total: int = 0
    bytes_total: int = 0
    bypassed_last_minute: int = 0
    last_error: str = ""
    segments: int = 0
    waits_for: str = ""
    source_start: int | None = None
    merged_total: int = 0
    leader_bytes_total: int = 0
    follower_bytes_total: int = 0
    queued_bytes: int = 0
    missing_ids: tuple[int, ...] = ()
    ids_written_total: int = 0


class MirrorEvents(Protocol):
    """What the engine tells the control plane."""

    def partition_failed(self, link: str, topic: str, partition: int, error: MirrorError, message: str) -> None:
        """The partition cannot be mirrored exactly; it has stopped for good."""

    def source_available(self, link: str, available: bool, message: str, *, refused: bool = False) -> None:
        """The link's source cluster was lost or found again, or is still lost for another reason.

        `refused`: it answers, and does not take the link's credentials.
        """

    def records_lost(self, link: str, topic: str, partition: int, first: int, following: int) -> None:
        """The source deleted these source offsets before they were mirrored, and the mirror goes on behind them."""

    def topic_readable(self, link: str, topic: str) -> None:
        """All partitions are padded: the topic may be read."""

    def topic_translated(self, link: str, topic: str, reason: str) -> None:
        """Offsets differ from here on, for `reason`: the topic's mode is translate now."""


class OffsetMapSource(Protocol):
    """The offset maps of mirror topics in mode translate."""

    async def offset_maps(self, mirror: MirrorRecord) -> Sequence[OffsetMap]:
        """Of each partition, as of now.

        Raises:
            Exception: they cannot be read; the message is for the operator.
        """

    async def has_offset_map(self, mirror: MirrorRecord) -> bool:
        """Whether the map topic has something of a mirror that does not run: then its offsets are translated.

        Raises:
            Exception: as `offset_maps`.
        """


class MirrorEngine(Protocol):
    """The mirror, as the control plane drives it. Topics are named by mirror topic."""

    async def start_link(self, link: LinkRecord) -> None:
        """Begin to keep connections to the link's source. Never raises for an unreachable source."""

    def update_link(self, link: LinkRecord) -> None:
        """The configs of a link that runs were changed: it goes on with these, and nothing in flight is lost."""

    def started_links(self) -> Mapping[str, LinkRecord]:
        """Every link that was started and not stopped, by name: the record it was started with."""

    async def stop_link(self, link: str) -> None:
        """Stop all of the link's mirrors and close its connections."""

    def start_mirror(self, mirror: MirrorRecord) -> None:
        """Mirror all partitions from where the target's logs end. A running mirror is left as it is."""

    def started(self) -> Mapping[tuple[str, str], MirrorRecord]:
        """(link, mirror topic) of every mirror that was started and not stopped: the record it was started with."""

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        """Of one mirror, as `started` says; None when it is not among them."""

    async def stop_mirror(self, link: str, topic: str) -> None:
        """Stop fetching and wait for the appends in flight."""

    def status(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        """The partitions that the engine knows of this very mirror (`state/mirror_states.py`), in order; empty if it
        runs none: what was measured in another period, or of another mirror of the topic, is not told."""

    def running_partitions(self, mirror: MirrorRecord) -> RunningPartitions:
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

    def own_changed(self, begun: Collection[MirrorPartition], ended: Collection[MirrorPartition]) -> None:
        """As `own`, with these as well, and without those; what is so already stays so."""

    def running(self) -> frozenset[MirrorPartition]:
        """What runs here."""

    async def release(self, partitions: frozenset[MirrorPartition]) -> Mapping[MirrorPartition, CarriedTable]:
        """Stop these here and wait for their appends, until `own` names them again.

        Returns what is known of their producers, for `carry_over` where they run next; nothing of a partition whose
        table is not whole yet.
        """

    def carry_over(self, tables: Mapping[MirrorPartition, CarriedTable]) -> None:
        """What `release` gave elsewhere: the partitions that the next `own` starts begin with it."""

    async def quiet(self, topics: Collection[tuple[str, str]]) -> bool:
        """Wait until no append of stopped partitions of these (link, mirror topic) is in flight; False: not in time."""

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        """The record that a mirror was started with; None when it was not."""

    def status(self, mirror: MirrorRecord, partitions: Sequence[int] | None = None) -> Sequence[PartitionStatus]:
        """The partitions of this very mirror that run here, in order; of these, or of all."""

    def moving(self) -> Collection[MirrorPartition]:
        """What runs here and is measured: something became of it in the last minute."""

    def forwarded(self, topic: str, partition: int, base_offset: int, records: int) -> None:
        """A client's Produce was written to the source by some gateway."""
