"""Moves the log start of a mirror topic's partitions to where their origin's is.

While a topic is mirrored the copy deletes nothing by itself (`kafka/rules/topic_configs.py`). What its origin has
deleted,
by retention or by DeleteRecords, is deleted from the copy here. So an offset that is in one log is in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from gateway.mirror.offset_map.rules.offset_map import TranslationRule
from gateway.mirror.offset_map.rules.translation import Maps, translated
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.offset_translation import OffsetsBetween
from gateway.state.records import MirrorMode, MirrorRecord

_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True)
class Copy:
    """A mirror and the topics that it reads and writes."""

    mirror: MirrorRecord
    origin_topic: str
    copy_topic: str


async def follow_log_starts(
    between: OffsetsBetween,
    copy_ends: Callable[[MirrorRecord], Mapping[int, int]],
    copies: Sequence[Copy],
    origin: ClusterAccess,
    target: ClusterAccess,
) -> None:
    """Compare the log starts of all partitions of one link's topics, and delete what only the copies have.

    Args:
        between: the link's offsets. copy_ends: where the log of a mirror's copy ends, as far as its mirror has told.
        origin: the cluster that is mirrored. target: the one with the copies.

    Raises:
        NetError, ControlError: a cluster did not answer or refused; the rest is left undone.
    """
    copies = [copy for copy in copies if copy.mirror.readable and not _mapped_back(copy.mirror)]
    if not copies:
        return
    first = await origin.log_starts({copy.origin_topic: len(copy.mirror.starts) for copy in copies})
    present = await target.log_starts({copy.copy_topic: len(copy.mirror.starts) for copy in copies})
    moved = [copy for copy in copies if any(start > 0 for start in first[copy.origin_topic])]
    places = [
        ((copy.mirror.mirror_topic, partition), start)
        for copy in moved
        for partition, start in enumerate(first[copy.origin_topic])
    ]
    maps = await between.maps_for(places, on_target=False)
    for copy in moved:
        starts = (first[copy.origin_topic], present[copy.copy_topic])
        delete = _deletions(copy.mirror.mirror_topic, maps, *starts, copy_ends(copy.mirror))
        if delete:
            _log.info("records deleted as on the origin", link=copy.mirror.link, topic=copy.copy_topic, before=delete)
            await target.delete_records(copy.copy_topic, delete)


def _mapped_back(mirror: MirrorRecord) -> bool:
    """The offset map of a mirror that goes back tells source offsets of target offsets, not the other way round."""
    return mirror.is_reverse and mirror.mode is MirrorMode.TRANSLATE


def _deletions(
    topic: str, maps: Maps, first: Sequence[int], present: Sequence[int], ends: Mapping[int, int]
) -> dict[int, int]:
    """Per partition the offset below which the copy's records go. What is not copied yet is not looked at.

    Nothing goes where nobody tells the copy's end; an end told late is too low, and the next look makes up for it.
    """
    found = {}
    for partition, (start, now) in enumerate(zip(first, present, strict=True)):
        wanted = translated(maps, (topic, partition), start)
        end = ends.get(partition)
        if end is not None and wanted.rule is not TranslationRule.BEYOND_END and now < wanted.offset <= end:
            found[partition] = wanted.offset
    return found
