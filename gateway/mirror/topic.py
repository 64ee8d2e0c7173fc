"""One mirror topic: its partitions, whether its source is still the same, and what is told of them."""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.domain.copy_ends import PartitionEnd, Standing
from gateway.domain.mirror_way import way_of
from gateway.domain.offset_map import OffsetMap
from gateway.domain.partition import PartitionMirror
from gateway.domain.partition_state import Phase
from gateway.domain.ports import MirrorEvents, PartitionStatus
from gateway.domain.progress import MirrorProgress
from gateway.domain.records import MirrorError, MirrorMode, MirrorRecord, ProducerEntry
from gateway.domain.source_watch import SourceTopicWatch
from gateway.mirror.cluster_requests import ClusterRequests
from gateway.net.cluster import Cluster
from gateway.replication.log_reader import LogReader
from gateway.replication.map_topic import LinkMaps
from gateway.replication.runner import PartitionRunner
from gateway.replication.tasks import Tasks
from gateway.replication.topic_maps import TopicMaps

_log = logging.getLogger(__name__)

_QUIET_S: Final = 40.0  # an append is answered, or its connection closed, before


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a link shares with the topics that it mirrors one way. `source` is the origin, `target` holds the copies.

    `skip_deleted`: go on behind records that the source deleted before they were mirrored.
    `maps`: the link's offset maps; None: offsets must be equal. `clock` is monotonic seconds, `wall_ms` the time of
    day.
    """

    link: str
    link_id: int
    source: Cluster
    target: Cluster
    source_logs: LogReader
    target_logs: LogReader
    tasks: Tasks
    maps: LinkMaps | None
    skip_deleted: bool
    progress: MirrorProgress
    events: MirrorEvents
    clock: Callable[[], float]
    wall_ms: Callable[[], int]


class TopicMirror(ClusterRequests):
    """Implements `replication.shells.Shell` for its partitions.

    Args:
        ended: called with a partition that has failed, to take it out of fetching and appending.

    Attributes:
        runners: of the partitions that run here, by index.
    """

    def __init__(self, record: MirrorRecord, around: Surroundings, ended: Callable[[PartitionRunner], None]) -> None:
        self.record = record
        self._around = around
        self._ended = ended
        self._settled = False
        self._told_translated = False
        self.way = way = way_of(record, around.link_id)
        self._watch = SourceTopicWatch(way.origin, way.origin_id, len(way.starts))
        self.maps: TopicMaps | None = None
        if around.maps is not None:
            self.maps = TopicMaps(around.maps, around.source, around.target, around.tasks, self._translated)
        self.runners: dict[int, PartitionRunner] = {}
        self._stopping: dict[PartitionRunner, None] = {}
        self._quiet = asyncio.Event()
        _log.info("link %s: mirroring %s", around.link, record.mirror_topic)

    @property
    def partitions(self) -> range:
        """All of the topic's."""
        return range(len(self.way.starts))

    def add(self, index: int) -> PartitionRunner:
        """Run a partition here; the caller begins it. One that is still being stopped does no harm."""
        runner = self.runners[index] = self._runner(index)
        return runner

    def drop(self, index: int) -> PartitionRunner:
        """Run a partition here no more; `quiet` waits for its appends. Returns it, stopped."""
        runner = self.runners.pop(index)
        self._stopping[runner] = None
        runner.stop(lambda: self._is_quiet(runner))
        return runner

    def _is_quiet(self, runner: PartitionRunner) -> None:
        self._stopping.pop(runner, None)
        self._quiet.set()

    async def quiet(self) -> bool:
        """Wait until no append of what was dropped is in flight; at most as long as one can be, then False."""
        try:
            async with asyncio.timeout(_QUIET_S):
                while self._stopping:
                    self._quiet.clear()
                    await self._quiet.wait()
        except TimeoutError:
            _log.warning("link %s: appends to %s are still unanswered", self._around.link, self.record.mirror_topic)
        return not self._stopping

    def _runner(self, index: int) -> PartitionRunner:
        around, way, maps = self._around, self.way, self._around.maps
        ledger = None if maps is None else maps.ledger(way.map_key(index), way.implied[index])
        if ledger is not None and way.implied[index].source != way.implied[index].target:
            ledger.used = True  # the other way has left the two logs with different ends
        mirror = PartitionMirror(
            way.starts[index],
            way.producer_id,
            wall_ms=around.wall_ms,
            handed_over_at=way.handed_over_at[index],
            ledger=ledger,
            compacted=self.record.compacted,
            skip_deleted=around.skip_deleted,
        )
        return PartitionRunner(
            (way.copy, index),
            way.origin,
            _id_bytes(way.origin_id),
            mirror,
            self,
            clock=around.clock,
            wall_ms=around.wall_ms,
            offsets=self.maps,
        )

    async def stop(self) -> None:
        """Stop every partition and wait for the appends in flight."""
        for index in tuple(self.runners):
            self.drop(index)
        await self.quiet()
        _log.info("link %s: stopped mirroring %s", self._around.link, self.record.mirror_topic)

    def tick(self, now: float) -> None:
        """Once a second: measure, and look whether the source topic is still the same."""
        for runner in self.runners.values():
            runner.sample(now)
            if self.maps is not None:
                self.maps.look_at_transactions(runner, now)
                self.maps.keep_read_to(runner)
        self.look(now)

    def look(self, now: float) -> None:
        """Compare with the source's metadata."""
        source = self._around.source
        if not source.available:
            return
        found = source.view.topics.get(self.way.origin)
        if found is None:
            failure = self._watch.missing(now)
            source.invalidate(self.way.origin)
        elif found.partitions:
            failure = self._watch.found(found.id_text, len(found.partitions), now)
            if self._watch.lacks_partitions:
                source.invalidate(self.way.origin)
        else:  # an error of the whole topic, such as no right to describe it, says nothing about it
            return
        if failure is not None:
            for runner in tuple(self.runners.values()):
                runner.fail(*failure)

    def _translated(self, runner: PartitionRunner, reason: str) -> None:
        """Offsets are not equal any more, or were found to be not."""
        if self.record.mode is MirrorMode.PRESERVE and not self._told_translated:
            self._told_translated = True
            _log.warning(
                "link %s: %s is translated from now on: %s", self._around.link, self.record.mirror_topic, reason
            )
            self._around.events.topic_translated(self._around.link, self.record.mirror_topic, reason)

    def offset_map(self, index: int) -> OffsetMap | None:
        """A partition's map, as it is kept while the mirror runs here; None when it does not."""
        runner = self.runners.get(index)
        translator = None if runner is None else runner.mirror.translator
        return None if translator is None else translator.ledger.map

    def status(self) -> Sequence[PartitionStatus]:
        """The partitions that run here, in order."""
        return tuple(self.runners[index].status() for index in sorted(self.runners))

    def standing(self) -> Standing:
        """What runs here, and how far it is."""
        runners = [self.runners.get(index) for index in self.partitions]
        return Standing(
            tuple(one.mirror.mirrored_to if one is not None and _is_placed(one) else -1 for one in runners),
            tuple(index for index, one in enumerate(runners) if one is None),
            tuple(index for index, one in enumerate(runners) if one is not None and not _is_warm(one)),
        )

    def ends(self) -> Sequence[PartitionEnd | None]:
        """Per partition where it stands, with what its producer table holds at the copy's offsets."""
        runners = (self.runners.get(index) for index in self.partitions)
        return tuple(_end(one) if one is not None and _is_placed(one) else None for one in runners)

    def _is_whole(self) -> bool:
        return len(self.runners) == len(self.partitions)

    # Shell, beside what is asked of the clusters

    def settled(self, runner: PartitionRunner) -> None:
        """Tell when it was the last one."""
        if not self._settled and self._is_whole() and self._all_settled():
            self._settled = True
            self._around.events.topic_settled(self._around.link, self.record.mirror_topic)

    def _all_settled(self) -> bool:
        return all(one.mirror.settled for one in self.runners.values())

    def failed(self, runner: PartitionRunner, error: MirrorError, message: str) -> None:
        """Tell, and take it out."""
        _log.error("link %s: %s-%d FAILED: %s: %s", self._around.link, *runner.key, error, message)
        self._ended(runner)
        self._around.events.partition_failed(
            self._around.link, self.record.mirror_topic, runner.partition, error, message
        )

    def records_lost(self, runner: PartitionRunner, first: int, following: int) -> None:
        """Tell: the link says to go on."""
        _log.error(
            "link %s: %s-%d: source offsets %d..%d are lost", self._around.link, *runner.key, first, following - 1
        )
        topic = self.record.mirror_topic
        self._around.events.records_lost(self._around.link, topic, runner.partition, first, following)

    def advanced(self, runner: PartitionRunner, position: int) -> None:
        """Tell whoever waits."""
        self._around.progress.advance(self.record.mirror_topic, runner.partition, position)


def _is_placed(runner: PartitionRunner) -> bool:
    """Where the copy ends was read, so that the position is one."""
    return runner.mirror.phase is Phase.COPYING


def _is_warm(runner: PartitionRunner) -> bool:
    return _is_placed(runner) and runner.cursor.warm and not runner.mirror.window.in_doubt


def _end(runner: PartitionRunner) -> PartitionEnd:
    window = runner.mirror.window
    return PartitionEnd(window.source_position, window.position, _producers(runner), _is_warm(runner))


def _producers(runner: PartitionRunner) -> tuple[ProducerEntry, ...]:
    entries, translator = runner.cursor.producers.entries(), runner.mirror.translator
    if translator is None or not runner.mirror.translates:
        return entries
    offsets = translator.ledger.map
    return tuple(replace(entry, base_offset=offsets.to_target(entry.base_offset).offset) for entry in entries)


def _id_bytes(text: str) -> bytes | None:
    """A topic id from Kafka's text form; None when there is none."""
    if len(text) != 22:
        return None
    value = urlsafe_b64decode(text + "==")
    return value if any(value) else None
