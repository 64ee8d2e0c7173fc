"""What outlives a mirror's record: how often the writes of its topic have failed back. Pure.

Brokers remember the last sequence of every producer id, whether the mirror has a record or not. So where a topic's
writes have failed back, producers go on in its failback epoch (`state/producer_ids.py`) for as long as one of its two
topics is there: on the target after the mirror, or its link, is deleted, and on the source when it is mirrored again.
The store itself keeps this, in the transaction that deletes a mirror (`StateStore.write`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.state.records import Deletion, LinkRecord, MirrorRecord, MirrorState

MAX_REMEMBERED: Final = 100_000
"""Deleted mirrors whose failback epochs are kept. No mirror is deleted that would be one more."""

MAX_GONE: Final = 10_000
"""Of those whose topic is gone from the target, too, so that only a mirror of the same source topic would need them:
the latest are kept. Not a time: no gateway's time of day decides what producers are refused."""

FORGOTTEN: Final = "forgotten-failbacks"
"""The sequence of the failback epochs that are kept no more, added up: what counts all failbacks never falls."""

_WRITTEN_ON_TARGET: Final = (MirrorState.STOPPED, MirrorState.PENDING_SYNCHRONIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailbackEpochRecord:
    """The failback epoch of a topic whose mirror was deleted; also while it is mirrored again.

    `mirror_topic_id`, `source_topic_id`: of the topics that the mirror had, '' where clusters have no ids. `on_target`:
    clients have written it on the target last, or may have since. `since_ms`: wall clock of the deletion, which puts
    them in order.
    """

    mirror_topic: str
    epoch: int
    mirror_topic_id: str = ""
    source_cluster_id: str = ""
    source_topic: str = ""
    source_topic_id: str = ""
    on_target: bool = False
    since_ms: int = 0


def outliving(
    mirror: MirrorRecord, link: LinkRecord | None, known: FailbackEpochRecord | None, now_ms: int
) -> FailbackEpochRecord | None:
    """What is kept of a mirror whose record is deleted; None: brokers know its producers by the ids of epoch 0 alone.

    Args:
        known: what is kept of mirrors of this name that were deleted before.

    What never failed back is kept if it was written on the target and the topic is deleted there: mirrored again, its
    source would meet producers that have skipped what they wrote on the target.
    """
    written_there = mirror.is_reverse or mirror.state in _WRITTEN_ON_TARGET
    epoch = max(mirror.failback.epoch, known.epoch if known is not None else 0)
    if not epoch and known is None and not (written_there and mirror.deletion is Deletion.TOPIC):
        return None
    return FailbackEpochRecord(
        mirror_topic=mirror.mirror_topic,
        epoch=epoch,
        mirror_topic_id=mirror.mirror_topic_id or mirror.replaces,
        source_cluster_id="" if link is None else link.source_cluster_id,
        source_topic=mirror.source_topic,
        source_topic_id=mirror.source_topic_id,
        on_target=written_there or mirror.deletion is not Deletion.TOPIC,
        since_ms=now_ms,
    )


def to_forget(gone: Iterable[FailbackEpochRecord], limit: int = MAX_GONE) -> list[FailbackEpochRecord]:
    """Of those whose topic is gone from the target, and which no mirror goes on with: the oldest beyond the limit."""
    latest_first = sorted(gone, key=lambda one: (one.since_ms, one.mirror_topic), reverse=True)
    return latest_first[limit:]


def epoch_of_new(
    kept: Iterable[FailbackEpochRecord], mirror_topic: str, source_cluster_id: str, source_topic: str
) -> int:
    """The failback epoch in which a new mirror begins: the one that its source has seen last; the next one, if clients
    have written the topic on the target since, as after a failback. Batches that were not answered yet when a mirror
    was deleted which was written on the source keep their ids there, so the source knows them for what they are."""
    return max(
        (
            one.epoch + one.on_target
            for one in kept
            if one.mirror_topic == mirror_topic
            or (one.source_cluster_id == source_cluster_id and one.source_topic == source_topic)
        ),
        default=0,
    )
