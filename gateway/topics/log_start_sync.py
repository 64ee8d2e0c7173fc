"""Moves the log start of a mirror topic's partitions to where their origin's is.

While a topic is mirrored the copy deletes nothing by itself (`kafka/rules/topic_configs.py`). What its origin has
deleted, by retention or by DeleteRecords, is deleted from the copy here. So an offset that is in one log is in the
other.

Where the origin's logs start, the mirrors hear with what they fetch: a broker answers when it has changed (KIP-227). So
no cluster is asked anything while nothing is deleted. A mirror that is PAUSED hears nothing: for those the origin is
asked, all of a link in one go, and now and then only (`follow_paused`).

A topic whose retention is its own (`topic.config.sync.include` without it) is not followed: its caller leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from gateway.errors import Conflict
from gateway.kafka.acts import ActRefused
from gateway.kafka.connection.errors import NetError, PartitionErrors
from gateway.mirror.interface import PartitionStatus
from gateway.mirror.offset_map.rules.offset_map import Translation, TranslationRule
from gateway.mirror.offset_map.rules.translation import Maps
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.door import Door
from gateway.operations.offset_translation import OffsetsBetween
from gateway.state.mirror_states import tag_of
from gateway.state.records import MirrorRecord

_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True)
class Copy:
    """A mirror and the topics that it reads and writes."""

    mirror: MirrorRecord
    origin_topic: str
    copy_topic: str

    @property
    def tag(self) -> str:
        """What is known of one period of a mirror says nothing of another."""
        return tag_of(self.mirror)


class LogStartSync:
    """Of the mirrors of one link, one way.

    Args:
        status: what is measured of a mirror's partitions, in its present period.
    """

    def __init__(self, status: Callable[[MirrorRecord], Sequence[PartitionStatus]], door: Door) -> None:
        self._status = status
        self._door = door
        self._followed: dict[str, dict[int, int]] = {}  # per partition the origin's log start that was followed

    async def follow(self, between: OffsetsBetween, copies: Sequence[Copy], target: ClusterAccess) -> None:
        """Delete what only the copies have, wherever the origin has deleted something since the last time.

        Args:
            between: the link's offsets.
            copies: all mirrors that run.
            target: the cluster with the copies.

        Raises:
            PartitionErrors: a leader did not answer or refused; what others have to delete is deleted.
            NetError, ControlError: the cluster did not answer or refused; the rest is left undone.
        """
        copies = [copy for copy in copies if copy.mirror.readable]
        self._followed = {copy.tag: self._followed.get(copy.tag, {}) for copy in copies}
        statuses = {copy.tag: self._status(copy.mirror) for copy in copies}
        told = {
            tag: {one.partition: one.source_start for one in status if one.source_start is not None}
            for tag, status in statuses.items()
        }
        moved = {copy.tag: self._moved(copy, told[copy.tag]) for copy in copies}
        ends = {tag: {one.partition: one.target_end for one in status} for tag, status in statuses.items()}
        _raise_first(await self._delete(between, [copy for copy in copies if moved[copy.tag]], target, moved, ends))

    async def follow_paused(
        self, between: OffsetsBetween, copies: Sequence[Copy], origin: ClusterAccess, target: ClusterAccess
    ) -> None:
        """As `follow`, of mirrors that do not run: both clusters are asked. `copies`: all of them."""
        copies = [copy for copy in copies if copy.mirror.readable]
        self._followed = {copy.tag: self._followed.get(copy.tag, {}) for copy in copies}
        if not copies:
            return
        starts, troubles = await _log_starts(origin, {copy.origin_topic: len(copy.mirror.starts) for copy in copies})
        told = [copy for copy in copies if copy.origin_topic in starts]
        moved = {copy.tag: self._moved(copy, dict(enumerate(starts[copy.origin_topic]))) for copy in told}
        ends: dict[str, dict[int, int]] = {}
        for copy in told:
            if not moved[copy.tag]:
                continue
            try:
                ranges = await target.log_ranges(copy.copy_topic, len(copy.mirror.starts))
            except PartitionErrors as exc:
                troubles.append(exc)
                continue
            ends[copy.tag] = {partition: end for partition, (_, end) in enumerate(ranges)}
        troubles += await self._delete(between, [copy for copy in told if copy.tag in ends], target, moved, ends)
        _raise_first(troubles)

    async def _delete(
        self,
        between: OffsetsBetween,
        copies: Sequence[Copy],
        target: ClusterAccess,
        moved: Mapping[str, Mapping[int, int]],
        ends: Mapping[str, Mapping[int, int]],
    ) -> list[PartitionErrors]:
        """`moved`: per partition where the origin's log starts now; `ends`: where the copy's ends. All go one way.

        Returns what went wrong with some; the others do not wait for them.
        """
        if not copies:
            return []
        present, troubles = await _log_starts(target, {copy.copy_topic: len(copy.mirror.starts) for copy in copies})
        copies = [copy for copy in copies if copy.copy_topic in present]
        places = [
            ((copy.mirror.mirror_topic, partition), start)
            for copy in copies
            for partition, start in moved[copy.tag].items()
        ]
        maps = await between.maps_for(places, on_target=copies[0].mirror.is_reverse)
        for copy in copies:
            now = present[copy.copy_topic]
            wanted = _wanted(copy.mirror, maps, moved[copy.tag], ends[copy.tag])
            delete = {partition: offset for partition, offset in wanted.items() if now[partition] < offset}
            failed: set[int] = set()
            try:
                if delete and not await self._deleted(copy, target, delete):
                    continue
            except PartitionErrors as exc:
                troubles.append(exc)
                failed = {partition for _, partition in exc.errors}
            followed = {partition: moved[copy.tag][partition] for partition in wanted.keys() - failed}
            self._followed[copy.tag].update(followed)
        return troubles

    async def _deleted(self, copy: Copy, target: ClusterAccess, before: Mapping[int, int]) -> bool:
        """False when the mirror was changed meanwhile: what was measured may be of another period then, in which the
        topics have changed places. It is looked at again in the next round."""
        names = {"link": copy.mirror.link, "topic": copy.copy_topic}
        done: Mapping[int, int] = {}
        try:
            async with self._door.through(copy.mirror):
                await target.delete_records(copy.copy_topic, before)
            done = before
        except ActRefused as exc:
            done = _done(before, exc)
            _log.info("records left for the next round", **names, reason=str(exc))
            return False
        except PartitionErrors as exc:
            done = _done(before, exc)
            raise
        finally:
            if done:
                _log.info("records deleted as on the origin", **names, before=done)
        return True

    def _moved(self, copy: Copy, starts: Mapping[int, int]) -> dict[int, int]:
        """Per partition of which the origin's log start has grown: where it is now."""
        followed = self._followed[copy.tag]
        return {partition: start for partition, start in starts.items() if start > followed.get(partition, 0)}


async def _log_starts(
    access: ClusterAccess, topics: Mapping[str, int]
) -> tuple[Mapping[str, Sequence[int]], list[PartitionErrors]]:
    """Of the topics whose partitions all tell; and why others do not. Raises when none does."""
    try:
        return await access.log_starts(topics), []
    except PartitionErrors as exc:
        silent = {topic for topic, _ in exc.errors}
        rest = {topic: count for topic, count in topics.items() if topic not in silent}
        if not rest:
            raise
        return await access.log_starts(rest), [exc]


def _done(before: Mapping[int, int], exc: NetError) -> Mapping[int, int]:
    """What of an act was carried out that ended with an error."""
    told = {partition for _, partition in exc.partial} if isinstance(exc, PartitionErrors) else set[int]()
    return {partition: offset for partition, offset in before.items() if partition in told}


def _raise_first(troubles: Sequence[PartitionErrors]) -> None:
    if troubles:
        raise troubles[0]


def _wanted(mirror: MirrorRecord, maps: Maps, starts: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Per partition where the copy's log is to start. What is not copied yet is left out: it is looked at again.

    Nothing goes where nobody tells the copy's end; an end told late is too low, and the next look makes up for it. Nor
    where nobody knows any more what the origin's start is on the copy: from before many changes of sides.
    """
    found = {}
    for partition, start in starts.items():
        try:
            wanted = _on_copy(mirror, maps, partition, start)
        except Conflict:
            found[partition] = 0
            continue
        end = ends.get(partition)
        if end is not None and wanted.rule is not TranslationRule.BEYOND_END and wanted.offset <= end:
            found[partition] = wanted.offset
    return found


def _on_copy(mirror: MirrorRecord, maps: Maps, partition: int, offset: int) -> Translation:
    """An offset of the origin, as the copy counts. Raises Conflict: older than what is known of the mirror's ways."""
    of_topic = maps.get(mirror.mirror_topic)
    if of_topic is None:
        return Translation(offset, TranslationRule.EXACT)
    return of_topic.to_source(partition, offset) if mirror.is_reverse else of_topic.to_target(partition, offset)
