"""The mirror's interface to the control plane: commands and events. Everything is called on the one event loop."""

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
    unknown, for example before a cluster's first answer.
    `bytes_per_s` is a 5-second moving rate. `phase`: starting | padding | copying | paused | failed | stopped.
    `bypassed_last_minute`: records of the last 60 s that no gateway forwarded (their producer has not migrated yet).
    `segments` of the offset map; 0 while source and target offsets are equal. `waits_for`: what the source waits for
    before it shows more records, or the mirror before it copies them; "" when nothing is known. `source_start`: the
    source's log start, None while unknown. `merged_total`: batches that were appended as part of a merged one.
    `leader_bytes_total`, `follower_bytes_total`: bytes of records that the source's leaders and followers have sent.
    `queued_bytes`: memory of records that were fetched and are not known to be on the target yet. `missing_ids`:
    schema ids in records that the mirror does not copy until the id map has them; `ids_written_total`: ids rewritten.
    Both only for topics with `translates_ids`.
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
        """The partition cannot be mirrored exactly; its mirror has stopped for good."""

    def source_available(self, link: str, available: bool, message: str, *, refused: bool = False) -> None:
        """The link's source cluster became unreachable or reachable, or is still unreachable for another reason.

        `refused`: the source answers, and rejects the link's credentials.
        """

    def records_lost(self, link: str, topic: str, partition: int, first: int, following: int) -> None:
        """The source deleted offsets `first` to `following` - 1 before they were mirrored; the mirror skips them."""

    def topic_readable(self, link: str, topic: str) -> None:
        """All partitions are padded: clients may read the topic."""

    def topic_translated(self, link: str, topic: str, reason: str) -> None:
        """Source and target offsets differ from now on, because of `reason`: the topic's mode is now translate."""


class OffsetMapSource(Protocol):
    """The offset maps of mirror topics in mode translate."""

    async def offset_maps(self, mirror: MirrorRecord) -> Sequence[OffsetMap]:
        """The current map of each partition.

        Raises:
            Exception: the maps cannot be read; the message is for the operator.
        """

    async def has_offset_map(self, mirror: MirrorRecord) -> bool:
        """Whether the map topic has records of a mirror that does not run: then its offsets are translated.

        Raises:
            Exception: as `offset_maps`.
        """


class MirrorEngine(Protocol):
    """The mirror, as the control plane drives it. Topics are named by mirror topic."""

    async def start_link(self, link: LinkRecord) -> None:
        """Connect to the link's source, and keep the connections. Never raises for an unreachable source."""

    def update_link(self, link: LinkRecord) -> None:
        """Apply changed configs to a running link. Nothing in flight is lost."""

    def started_links(self) -> Mapping[str, LinkRecord]:
        """Every running link, by name: the record with which it was started."""

    async def stop_link(self, link: str) -> None:
        """Stop all of the link's mirrors and close its connections."""

    def start_mirror(self, mirror: MirrorRecord) -> None:
        """Mirror all partitions, each from the end of its target log. Does nothing if the mirror already runs."""

    def started(self) -> Mapping[tuple[str, str], MirrorRecord]:
        """Every running mirror, by (link, mirror topic): the record with which it was started."""

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        """The record with which this mirror was started; None when it does not run."""

    async def stop_mirror(self, link: str, topic: str) -> None:
        """Stop fetching and wait for the appends in flight."""

    def status(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        """The status of this mirror's partitions that run here, in order; empty if none do. Measurements from another
        period, or of another mirror of the same topic (`state/mirror_states.py`), are left out."""

    def running_partitions(self, mirror: MirrorRecord) -> RunningPartitions:
        """Which partitions run in this process, and how far each is. Cheap: a promote asks at every step."""

    def ends(self, mirror: MirrorRecord) -> CopyEnds | None:
        """Where each partition stands and which producer batches it knows, all read at the same moment.

        None unless all partitions run in this process, as this record says, and are warm.
        """

    def partition_ends(self, mirror: MirrorRecord) -> Sequence[PartitionEnd | None]:
        """Same as `ends`, with whatever is known for each partition; None for one that does not run here."""


class OwnedMirrors(Protocol):
    """The mirror of one gateway among several: controls which partitions run in this process."""

    def own(self, partitions: frozenset[MirrorPartition] | None) -> None:
        """Run only these partitions of the mirrors that are started now or later; None: all partitions."""

    def own_changed(self, begun: Collection[MirrorPartition], ended: Collection[MirrorPartition]) -> None:
        """Same as `own`, as a change: add `begun`, remove `ended`. Others stay as they are."""

    def running(self) -> frozenset[MirrorPartition]:
        """The partitions that run here."""

    async def release(self, partitions: frozenset[MirrorPartition]) -> Mapping[MirrorPartition, CarriedTable]:
        """Stop these partitions here until `own` names them again, and wait for their appends in flight.

        Returns their producer tables, for `carry_over` at the gateway that runs them next; none for a partition whose
        table is incomplete.
        """

    def carry_over(self, tables: Mapping[MirrorPartition, CarriedTable]) -> None:
        """Take the tables that `release` returned at another gateway, for partitions that the next `own` starts."""

    async def quiet(self, topics: Collection[tuple[str, str]]) -> bool:
        """Wait until no append of stopped partitions of these (link, mirror topic) is in flight; False on timeout."""

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        """The record with which this mirror was started; None when it does not run."""

    def status(self, mirror: MirrorRecord, partitions: Sequence[int] | None = None) -> Sequence[PartitionStatus]:
        """The status of this mirror's partitions that run here, in order; None: of all, else of `partitions`."""

    def moving(self) -> Collection[MirrorPartition]:
        """The partitions that run here and are measured: those that changed within the last minute."""

    def forwarded(self, topic: str, partition: int, base_offset: int, records: int) -> None:
        """Some gateway wrote a client's Produce to the source."""
