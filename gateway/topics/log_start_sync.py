"""Moves the log start of a mirror topic's partitions to where their origin's is.

While a topic is mirrored the copy deletes nothing by itself (`kafka/rules/topic_configs.py`). What its origin has
deleted, by retention or by DeleteRecords, is deleted from the copy here. So an offset that is in one log is in the
other.

Where the origin's logs start, the mirrors hear with what they fetch: a broker answers when it has changed (KIP-227). So
no cluster is asked anything while nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from gateway.mirror.interface import PartitionStatus
from gateway.mirror.offset_map.rules.offset_map import TranslationRule
from gateway.mirror.offset_map.rules.translation import Maps, translated
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.offset_translation import OffsetsBetween
from gateway.state.records import MirrorMode, MirrorRecord

_log = structlog.get_logger("lockgate.control")

_Period = tuple[int, int]
"""Mirror id and failback epoch: what is known of one period of a mirror says nothing of another."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A mirror and the topics that it reads and writes."""

    mirror: MirrorRecord
    origin_topic: str
    copy_topic: str

    @property
    def period(self) -> _Period:
        """See `_Period`."""
        return self.mirror.mirror_id, self.mirror.failback.epoch


class LogStartSync:
    """Of the mirrors of one link, one way.

    Args:
        status: what is measured of a mirror's partitions.
    """

    def __init__(self, status: Callable[[MirrorRecord], Sequence[PartitionStatus]]) -> None:
        self._status = status
        self._followed: dict[_Period, dict[int, int]] = {}  # per partition the origin's log start that was followed

    async def follow(self, between: OffsetsBetween, copies: Sequence[Copy], target: ClusterAccess) -> None:
        """Delete what only the copies have, wherever the origin has deleted something since the last time.

        Args:
            between: the link's offsets.
            copies: all mirrors.
            target: the cluster with the copies.

        Raises:
            NetError, ControlError: the cluster did not answer or refused; the rest is left undone.
        """
        copies = [copy for copy in copies if copy.mirror.readable and not _mapped_back(copy.mirror)]
        self._followed = {copy.period: self._followed.get(copy.period, {}) for copy in copies}
        statuses = {copy.period: self._status(copy.mirror) for copy in copies}
        moved = {copy.period: self._moved(copy, statuses[copy.period]) for copy in copies}
        copies = [copy for copy in copies if moved[copy.period]]
        if not copies:
            return
        present = await target.log_starts({copy.copy_topic: len(copy.mirror.starts) for copy in copies})
        places = [
            ((copy.mirror.mirror_topic, partition), start)
            for copy in copies
            for partition, start in moved[copy.period].items()
        ]
        maps = await between.maps_for(places, on_target=False)
        for copy in copies:
            ends = {one.partition: one.target_end for one in statuses[copy.period]}
            now = present[copy.copy_topic]
            wanted = _wanted(copy.mirror.mirror_topic, maps, moved[copy.period], ends)
            delete = {partition: offset for partition, offset in wanted.items() if now[partition] < offset}
            if delete:
                names = {"link": copy.mirror.link, "topic": copy.copy_topic}
                _log.info("records deleted as on the origin", **names, before=delete)
                await target.delete_records(copy.copy_topic, delete)
            self._followed[copy.period].update({partition: moved[copy.period][partition] for partition in wanted})

    def _moved(self, copy: Copy, statuses: Sequence[PartitionStatus]) -> dict[int, int]:
        """Per partition of which the origin's log start has grown: where it is now."""
        followed = self._followed[copy.period]
        return {
            one.partition: one.source_start
            for one in statuses
            if one.source_start is not None and one.source_start > followed.get(one.partition, 0)
        }


def _mapped_back(mirror: MirrorRecord) -> bool:
    """The offset map of a mirror that goes back tells source offsets of target offsets, not the other way round."""
    return mirror.is_reverse and mirror.mode is MirrorMode.TRANSLATE


def _wanted(topic: str, maps: Maps, starts: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Per partition where the copy's log is to start. What is not copied yet is left out: it is looked at again.

    Nothing goes where nobody tells the copy's end; an end told late is too low, and the next look makes up for it.
    """
    found = {}
    for partition, start in starts.items():
        wanted = translated(maps, (topic, partition), start)
        end = ends.get(partition)
        if end is not None and wanted.rule is not TranslationRule.BEYOND_END and wanted.offset <= end:
            found[partition] = wanted.offset
    return found
