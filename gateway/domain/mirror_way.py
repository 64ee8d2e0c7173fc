"""Which way a mirror goes: the topic it reads, the topic it writes, and under which producer id. Pure.

Forward, the link's source is the origin and the target holds the copy; in reverse it is the other way round. Whatever
mirrors works with an origin and a copy and need not know which cluster is which.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.domain.producer_ids import mirror_producer_id
from gateway.domain.records import MirrorRecord, PartitionStart

_FROM_THE_BEGINNING = PartitionStart(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorWay:
    """`starts`: per partition where the copy begins; `handed_over_at`: the copy's log end when this mirror began.

    `origin_id` is the origin's topic id, "" when unknown.
    """

    origin: str
    origin_id: str
    copy: str
    starts: tuple[PartitionStart, ...]
    handed_over_at: tuple[int, ...]
    producer_id: int


def way_of(record: MirrorRecord, link_id: int) -> MirrorWay:
    """The way of a mirror as its record says."""
    reverse = record.is_reverse
    partitions = len(record.starts)
    starts = record.starts
    if reverse:
        starts = (record.reverse_starts + (_FROM_THE_BEGINNING,) * partitions)[:partitions]
    return MirrorWay(
        origin=record.mirror_topic if reverse else record.source_topic,
        origin_id=record.mirror_topic_id if reverse else record.source_topic_id,
        copy=record.source_topic if reverse else record.mirror_topic,
        starts=starts,
        handed_over_at=(record.handed_over_at + (0,) * partitions)[:partitions],
        producer_id=mirror_producer_id(link_id, record.mirror_id, record.generation, reverse=reverse),
    )
