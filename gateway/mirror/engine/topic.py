"""One mirror topic: its partitions, whether its source is still the same, and what is told of them."""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import NetError
from gateway.mirror.interface import MirrorEvents, PartitionStatus
from gateway.mirror.offset_map.partitions import TopicOffsetMaps
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.mirror.offset_map.topic import LinkMaps
from gateway.mirror.partition.beside import work_beside
from gateway.mirror.partition.log_reader import LogReader
from gateway.mirror.partition.log_start import earliest_start
from gateway.mirror.partition.report import SETTLED_S
from gateway.mirror.partition.rules.commands import WorkBeside
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.producer_table import OffsetsBehind
from gateway.mirror.partition.rules.schema_ids import IdRewriter
from gateway.mirror.partition.rules.state import PartitionPhase
from gateway.mirror.partition.runner import PartitionRunner
from gateway.mirror.partition.trim import trim
from gateway.mirror.rules.copy_ends import PartitionEnd, RunningPartitions
from gateway.mirror.rules.period import period_of
from gateway.mirror.rules.progress import MirrorProgress
from gateway.mirror.rules.source_watch import SourceTopicWatch
from gateway.state.producer_entries import ROW, PackedProducers
from gateway.state.records import MirrorError, MirrorMode, MirrorRecord
from gateway.transport.tasks import Tasks
from protocol.errors import ErrorCode, ProtocolError

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 5_000  # batches of producers
_QUIET_S: Final = 40.0  # an append is answered, or its connection closed, before


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDependencies:
    """What a link shares with the topics that it mirrors one way. `source` is the origin, `target` holds the copies.
    `may_append`: see `Destination`.

    `skip_deleted`: go on behind records that the source deleted before they were mirrored. `retry_s`: how long a topic
    of the source may be missing, or refused, before its mirror fails.
    `ids`: the link's id map, as of now; `ids_patience_s`: how long an id may be missing there.
    `maps`: the link's offset maps; None: offsets must be equal. `clock` is monotonic seconds, `wall_ms` the time of
    day.
    """

    link: str
    link_id: int
    source: Cluster
    target: Cluster
    may_append: Callable[[], bool]
    source_logs: LogReader
    target_logs: LogReader
    tasks: Tasks
    maps: LinkMaps | None
    skip_deleted: bool
    retry_s: float
    ids: Callable[[], Mapping[int, int]]
    ids_patience_s: float
    progress: MirrorProgress
    events: MirrorEvents
    clock: Callable[[], float]
    wall_ms: Callable[[], int]


class TopicMirror:
    """One mirror topic. It is its partitions' `PartitionEffects`: answers are the runner's inputs, also when a cluster
    refused or did not answer.

    Args:
        ended: called with a partition that has failed, to take it out of fetching and appending.

    Attributes:
        runners: of the partitions that run here, by index.
    """

    def __init__(
        self, record: MirrorRecord, dependencies: TopicDependencies, ended: Callable[[PartitionRunner], None]
    ) -> None:
        self.record = record
        self._dependencies = dependencies
        self._ended = ended
        self._readable = False
        self._told_translated = False
        self.period = period = period_of(record, dependencies.link_id)
        self._watch = SourceTopicWatch(period.origin, period.origin_id, len(period.starts), dependencies.retry_s)
        self.maps: TopicOffsetMaps | None = None
        if dependencies.maps is not None:
            self.maps = TopicOffsetMaps(
                dependencies.maps, dependencies.source, dependencies.target, dependencies.tasks, self._translated
            )
        self.runners: dict[int, PartitionRunner] = {}
        self._moving: dict[PartitionRunner, float | None] = {}  # what is measured; since when nothing became of it
        self._settled: dict[PartitionRunner, PartitionStatus] = {}  # of those that are not
        self._stopping: dict[PartitionRunner, None] = {}
        self._quiet = asyncio.Event()
        _log.info("link %s: mirroring %s", dependencies.link, record.mirror_topic)

    def update(self, dependencies: TopicDependencies) -> None:
        """The link's configs were changed."""
        self._dependencies = dependencies
        for runner in self.runners.values():
            runner.mirror.skip(deleted=dependencies.skip_deleted)
            runner.mirror.source.patience_s = dependencies.retry_s
            if runner.mirror.rewriter is not None:
                runner.mirror.rewriter.patience_s = dependencies.ids_patience_s
        self._watch.patience_s = dependencies.retry_s

    @property
    def partitions(self) -> range:
        """All of the topic's."""
        return range(len(self.period.starts))

    def add(self, index: int) -> PartitionRunner:
        """Run a partition here; the caller begins it. One that is still being stopped does no harm."""
        runner = self.runners[index] = self._runner(index)
        return runner

    def drop(self, index: int) -> PartitionRunner:
        """Run a partition here no more; `quiet` waits for its appends. Returns it, stopped."""
        runner = self.runners.pop(index)
        self._settled.pop(runner, None)
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
            _log.warning(
                "link %s: appends to %s are still unanswered", self._dependencies.link, self.record.mirror_topic
            )
        return not self._stopping

    def _runner(self, index: int) -> PartitionRunner:
        dependencies, period, maps = self._dependencies, self.period, self._dependencies.maps
        ledger = None if maps is None else maps.ledger(period.map_key(index), period.implied[index])
        if ledger is not None and period.implied[index].source != period.implied[index].target:
            ledger.used = True  # the other way has left the two logs with different ends
        mirror = PartitionMirror(
            period.starts[index],
            period.producer_id,
            wall_ms=dependencies.wall_ms,
            handed_over_at=period.handed_over_at[index],
            ledger=ledger,
            compacted=self.record.compacted,
            skip_deleted=dependencies.skip_deleted or self.record.goes_on,
            rewriter=self._rewriter(),
        )
        mirror.source.patience_s = dependencies.retry_s
        return PartitionRunner(
            (period.copy, index),
            period.origin,
            _id_bytes(period.origin_id),
            mirror,
            self,
            clock=dependencies.clock,
            wall_ms=dependencies.wall_ms,
            offsets=self.maps,
        )

    def _rewriter(self) -> IdRewriter | None:
        """Only what comes from the source has its ids."""
        places, dependencies = self.record.translates_ids, self._dependencies
        if not places or self.record.is_reverse:
            return None
        return IdRewriter(dependencies.ids, places, dependencies.ids_patience_s)

    async def stop(self) -> None:
        """Stop every partition and wait for the appends in flight."""
        for index in tuple(self.runners):
            self.drop(index)
        await self.quiet()
        _log.info("link %s: stopped mirroring %s", self._dependencies.link, self.record.mirror_topic)

    def tick(self, now: float) -> None:
        """Once a second: measure what has moved, and look whether the source topic is still the same."""
        for runner, since in tuple(self._moving.items()):
            if self.runners.get(runner.partition) is not runner:
                del self._moving[runner]
                continue
            runner.sample(now)
            if self.maps is not None:
                self.maps.look_at_transactions(runner, now)
                self.maps.keep_read_to(runner)
            if since is None:
                self._moving[runner] = now
            elif now - since > SETTLED_S and runner.rest():
                del self._moving[runner]
                status = runner.status()
                if status.lag == 0:  # else its age grows
                    self._settled[runner] = status
        self.look(now)

    def look_at_ids(self, now: float) -> None:
        """Once a second, unless the link is paused: do partitions that wait for ids go on?"""
        for runner in tuple(self.runners.values()) if self.record.translates_ids else ():
            runner.look_at_ids(now)

    def look(self, now: float) -> None:
        """Compare with the source's metadata."""
        source = self._dependencies.source
        if not source.available:
            return
        found = source.view.topics.get(self.period.origin)
        if found is None:
            failure = self._watch.missing(now)
            source.invalidate(self.period.origin)
        elif found.partitions:
            failure = self._watch.found(found.id_text, len(found.partitions), now)
            if self._watch.lacks_partitions:
                source.invalidate(self.period.origin)
        elif found.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            failure = self._watch.refused(now)
            source.invalidate(self.period.origin)
        else:  # another error of the whole topic says nothing about it
            return
        if failure is not None:
            for runner in tuple(self.runners.values()):
                runner.fail(*failure)

    def _translated(self, runner: PartitionRunner, reason: str) -> None:
        """Offsets are not equal any more, or were found to be not."""
        if self.record.mode is MirrorMode.PRESERVE and not self._told_translated:
            self._told_translated = True
            _log.warning(
                "link %s: %s is translated from now on: %s", self._dependencies.link, self.record.mirror_topic, reason
            )
            self._dependencies.events.topic_translated(self._dependencies.link, self.record.mirror_topic, reason)

    def offset_map(self, index: int) -> OffsetMap | None:
        """A partition's map, as it is kept while the mirror runs here; None when it does not."""
        runner = self.runners.get(index)
        translator = None if runner is None else runner.mirror.translator
        return None if translator is None else translator.ledger.map

    def status(self, partitions: Sequence[int] | None = None) -> Sequence[PartitionStatus]:
        """The partitions that run here, in order; of these, or of all."""
        found = sorted(self.runners) if partitions is None else partitions
        return tuple(self._status(self.runners[index]) for index in found if index in self.runners)

    def _status(self, runner: PartitionRunner) -> PartitionStatus:
        return self._settled.get(runner) or runner.status()

    def moving(self) -> Iterator[int]:
        """The partitions that are measured."""
        return (runner.partition for runner in self._moving if self.runners.get(runner.partition) is runner)

    def running_partitions(self) -> RunningPartitions:
        """What runs here, and how far it is. In one pass: a promote asks again and again while writes wait."""
        positions, absent, cold = list[int](), list[int](), list[int]()
        for index in self.partitions:
            runner = self.runners.get(index)
            placed = runner is not None and runner.mirror.phase is PartitionPhase.COPYING
            positions.append(runner.mirror.mirrored_to if runner is not None and placed else -1)
            if runner is None:
                absent.append(index)
            elif not (placed and _is_warm(runner)):
                cold.append(index)
        batches = sum(runner.cursor.producers.at_most for runner in self.runners.values())
        return RunningPartitions(tuple(positions), tuple(absent), tuple(cold), batches)

    def ends(self) -> Sequence[PartitionEnd | None]:
        """Per partition where it stands, with what its producer table holds at the copy's offsets."""
        runners = (self.runners.get(index) for index in self.partitions)
        return tuple(_end(one) if one is not None and _is_placed(one) else None for one in runners)

    def _is_whole(self) -> bool:
        return len(self.runners) == len(self.partitions)

    # what its partitions ask of the two clusters

    def read_target_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """Ask the target."""
        if delay_s:  # a retry: perhaps the leader has moved
            self._dependencies.target.invalidate(self.period.copy)
        self._dependencies.target_logs.ask(runner.key, delay_s, runner.target_bounds)

    def read_source_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """Ask the source."""
        begins = runner.mirror.phase is PartitionPhase.STARTING and runner.cursor.carried_to is None
        key = (self.period.origin, runner.partition)
        self._dependencies.source_logs.ask(key, delay_s, runner.source_bounds, recent=begins)

    def plan_start(self, runner: PartitionRunner) -> None:
        """Find the new start."""
        self._dependencies.tasks.spawn(self._plan_start(runner), "mirror plan start")

    async def _plan_start(self, runner: PartitionRunner) -> None:
        while not runner.mirror.ended:
            try:
                start = await earliest_start(self._dependencies.source, self.period.origin, runner.partition)
            except (NetError, ProtocolError) as exc:
                _log.warning("link %s: where %s-%d starts: %s", self._dependencies.link, *runner.key, exc)
                await asyncio.sleep(1.0)
            else:
                runner.start_planned(start)
                return

    def delete_records(self, runner: PartitionRunner, offset: int, delay_s: float) -> None:
        """Trim the target."""
        self._dependencies.tasks.spawn(
            trim(self._dependencies.target, runner, offset, delay_s, self._dependencies.may_append),
            "mirror delete records",
        )

    def work_beside(self, runner: PartitionRunner, command: WorkBeside) -> None:
        """In the thread of all mirrors."""
        self._dependencies.tasks.spawn(work_beside(runner, command), "mirror batches")

    def refresh_source(self) -> None:
        """Soon."""
        self._dependencies.source.invalidate(self.period.origin)

    # what its partitions tell

    def readable(self, runner: PartitionRunner) -> None:
        """Tell when it was the last one."""
        if not self._readable and self._is_whole() and self._all_readable():
            self._readable = True
            self._dependencies.events.topic_readable(self._dependencies.link, self.record.mirror_topic)

    def _all_readable(self) -> bool:
        return all(one.mirror.readable for one in self.runners.values())

    def failed(self, runner: PartitionRunner, error: MirrorError, message: str) -> None:
        """Tell, and take it out."""
        _log.error("link %s: %s-%d FAILED: %s: %s", self._dependencies.link, *runner.key, error, message)
        self._ended(runner)
        self._dependencies.events.partition_failed(
            self._dependencies.link, self.record.mirror_topic, runner.partition, error, message
        )

    def records_lost(self, runner: PartitionRunner, first: int, following: int) -> None:
        """Tell: the link says to go on."""
        _log.error(
            "link %s: %s-%d: source offsets %d..%d are lost", self._dependencies.link, *runner.key, first, following - 1
        )
        topic = self.record.mirror_topic
        self._dependencies.events.records_lost(self._dependencies.link, topic, runner.partition, first, following)

    def touched(self, runner: PartitionRunner) -> None:
        """Measure it."""
        self._moving[runner] = None
        self._settled.pop(runner, None)

    def advanced(self, runner: PartitionRunner, position: int) -> None:
        """Tell whoever waits."""
        self._dependencies.progress.advance(self.record.mirror_topic, runner.partition, position)


def _is_placed(runner: PartitionRunner) -> bool:
    """Where the copy ends was read, so that the position is one."""
    return runner.mirror.phase is PartitionPhase.COPYING


def _is_warm(runner: PartitionRunner) -> bool:
    return _is_placed(runner) and runner.cursor.warm and not runner.mirror.window.outcome_unknown


def _end(runner: PartitionRunner) -> PartitionEnd:
    window, seen = runner.mirror.window, runner.producers()
    return PartitionEnd(
        window.source_position, window.position, _on_the_copy(runner, seen), _is_warm(runner), OffsetsBehind(seen)
    )


def _on_the_copy(runner: PartitionRunner, seen: PackedProducers) -> PackedProducers:
    translator = runner.mirror.translator
    if translator is None or not runner.mirror.translates:
        return seen
    return PackedProducers.later(partial(_translated, seen, translator.ledger.map), seen.at_most)


def _translated(seen: PackedProducers, offsets: OffsetMap) -> Iterator[bytes]:
    """The batches at the copy's offsets. What the map says of a batch that is on the copy, it says for good."""
    for _ in seen.work_out():
        yield b""
    batches = ROW.iter_unpack(seen.rows)
    while some := [ROW.pack(*batch, offsets.to_target(at).offset) for *batch, at in islice(batches, _AT_ONCE)]:
        yield b"".join(some)


def _id_bytes(text: str) -> bytes | None:
    """A topic id from Kafka's text form; None when there is none."""
    if len(text) != 22:
        return None
    value = urlsafe_b64decode(text + "==")
    return value if any(value) else None
