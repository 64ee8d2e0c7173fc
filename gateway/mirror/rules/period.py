"""The direction of a mirror: the topic it reads, the topic it writes, and its producer id. Pure.

Forward, the link's source is the origin and the target holds the copy; in reverse it is the other way round. The
mirror works with an origin and a copy, and need not know which cluster is which.

`MirrorPartition` names one mirrored partition, whichever gateway copies it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gateway.mirror.offset_map.rules.codec import PartitionKey, period_number
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.state.per_partition import handed_over, of_each_or_none
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorRecord, PartitionStart


class MirrorPartition(NamedTuple):
    """One partition to mirror: link, mirror topic, index."""

    link: str
    topic: str
    partition: int


_FROM_THE_BEGINNING = PartitionStart(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorPeriod:
    """Per partition, `starts`: where the copy begins; `handed_over_at`: the copy's log end when this mirror began;
    `implied`: how offsets relate until the offset map says otherwise.

    `origin_id` is the origin's topic id, "" when unknown. `mirror_id` and `number` identify the period in map keys.
    """

    origin: str
    origin_id: str
    copy: str
    starts: tuple[PartitionStart, ...]
    handed_over_at: tuple[int, ...]
    producer_id: int
    implied: tuple[Breakpoint, ...]
    mirror_id: int
    number: int

    def map_key(self, partition: int) -> PartitionKey:
        """A partition's key in the offset map."""
        return PartitionKey(self.mirror_id, self.number, partition)


def map_key(record: MirrorRecord, partition: int) -> PartitionKey:
    """A partition's key in the offset map, for the record's present direction and failback epoch."""
    number = period_number(record.failback.epoch, reverse=record.is_reverse)
    return PartitionKey(record.mirror_id, number, partition)


def period_of(record: MirrorRecord, link_id: int) -> MirrorPeriod:
    """The mirror period that a record describes.

    Raises:
        WrongLength: the record does not have an entry for every partition.
    """
    reverse = record.is_reverse
    partitions = len(record.starts)
    starts = record.starts
    if reverse:
        starts = of_each_or_none(record, record.failback.reverse_starts, "reverse_starts")
        starts = starts or (_FROM_THE_BEGINNING,) * partitions
    nothing = (0,) * partitions
    handed_over_at, handed_over_from = handed_over(record) or (nothing, nothing)
    return MirrorPeriod(
        origin=record.mirror_topic if reverse else record.source_topic,
        origin_id=record.mirror_topic_id if reverse else record.source_topic_id,
        copy=record.source_topic if reverse else record.mirror_topic,
        starts=starts,
        handed_over_at=handed_over_at,
        producer_id=mirror_producer_id(link_id, record.mirror_id, record.failback.epoch, reverse=reverse),
        implied=tuple(map(_implied, starts, handed_over_at, handed_over_from)),
        mirror_id=record.mirror_id,
        number=period_number(record.failback.epoch, reverse=reverse),
    )


def _implied(start: PartitionStart, handed_over_at: int, handed_over_from: int) -> Breakpoint:
    if handed_over_at or handed_over_from:  # an origin of only markers and aborted records has an empty copy
        return Breakpoint(handed_over_from, handed_over_at)
    return Breakpoint(start.source_start, 0) if start.is_translated else Breakpoint(start.pad_to, start.pad_to)
