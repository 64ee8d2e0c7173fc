"""One mirror topic: its partitions, their status, and the check that the source topic is still the same."""

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
    """What a link shares with the topics that it mirrors in one direction. `source` is the origin, `target` holds the
    copies. `may_append`: see `Destination`.

    `skip_deleted`: skip records that the source deleted before they were mirrored. `retry_s`: how long the source may
    not have a topic, or refuse it, before the mirror fails.
    `ids`: returns the link's current id map; `ids_patience_s`: how long an id may be missing there.
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
    """One mirror topic. It is the `PartitionEffects` of its partitions: every answer becomes an input of the runner,
    also a refusal or the lack of an answer.

    Args:
        ended: called with a partition that has failed, to stop its fetches and appends.

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
        self._moving: dict[PartitionRunner, float | None] = {}  # measured partitions; since when each has not changed
        self._settled: dict[PartitionRunner, PartitionStatus] = {}  # of partitions that are not measured
        self._stopping: dict[PartitionRunner, None] = {}
        self._quiet = asyncio.Event()
        _log.info("link %s: mirroring %s", dependencies.link, record.mirror_topic)

    def update(self, dependencies: TopicDependencies) -> None:
        """Apply the link's changed configs."""
        self._dependencies = dependencies
        for runner in self.runners.values():
            runner.mirror.skip(deleted=self._skips_deleted)
            runner.mirror.source.patience_s = dependencies.retry_s
            if runner.mirror.rewriter is not None:
                runner.mirror.rewriter.patience_s = dependencies.ids_patience_s
        self._watch.patience_s = dependencies.retry_s

    @property
    def _skips_deleted(self) -> bool:
        """As the link says, or an operator who repaired this mirror."""
        return self._dependencies.skip_deleted or self.record.goes_on

    @property
    def partitions(self) -> range:
        """All partitions of the topic, whether they run here or not."""
        return range(len(self.period.starts))

    def add(self, index: int) -> PartitionRunner:
        """Run a partition here; the caller begins it. An earlier runner that is still stopping does no harm."""
        runner = self.runners[index] = self._runner(index)
        return runner

    def drop(self, index: int) -> PartitionRunner:
        """Stop running a partition here; `quiet` waits for its appends. Returns the stopped runner."""
        runner = self.runners.pop(index)
        self._settled.pop(runner, None)
        self._stopping[runner] = None
        runner.stop(lambda: self._is_quiet(runner))
        return runner

    def _is_quiet(self, runner: PartitionRunner) -> None:
        self._stopping.pop(runner, None)
        self._quiet.set()

    async def quiet(self) -> bool:
        """Wait until no append of a dropped partition is in flight; False after the longest time that one can be."""
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
            ledger.used = True  # the other direction has left the two logs with different ends
        mirror = PartitionMirror(
            period.starts[index],
            period.producer_id,
            wall_ms=dependencies.wall_ms,
            handed_over_at=period.handed_over_at[index],
            ledger=ledger,
            compacted=self.record.compacted,
            skip_deleted=self._skips_deleted,
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
        """None in reverse: only records from the source carry the source registry's ids."""
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
        """Once a second: measure the partitions that change, and check that the source topic is still the same."""
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
                if status.lag == 0:  # otherwise the age of its oldest record grows
                    self._settled[runner] = status
        self.look(now)

    def look_at_ids(self, now: float) -> None:
        """Once a second, unless the link is paused: resume partitions whose missing ids are now in the id map."""
        for runner in tuple(self.runners.values()) if self.record.translates_ids else ():
            runner.look_at_ids(now)

    def look(self, now: float) -> None:
        """Compare the topic with the source's metadata, and fail its partitions if it cannot be mirrored any more."""
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
        else:  # another error of the whole topic proves nothing
            return
        if failure is not None:
            for runner in tuple(self.runners.values()):
                runner.fail(*failure)

    def _translated(self, runner: PartitionRunner, reason: str) -> None:
        """Report once that a topic in mode preserve has different offsets now, or was found to have them."""
        if self.record.mode is MirrorMode.PRESERVE and not self._told_translated:
            self._told_translated = True
            _log.warning(
                "link %s: %s is translated from now on: %s", self._dependencies.link, self.record.mirror_topic, reason
            )
            self._dependencies.events.topic_translated(self._dependencies.link, self.record.mirror_topic, reason)

    def offset_map(self, index: int) -> OffsetMap | None:
        """The live map of a partition that runs here; None when it does not."""
        runner = self.runners.get(index)
        translator = None if runner is None else runner.mirror.translator
        return None if translator is None else translator.ledger.map

    def status(self, partitions: Sequence[int] | None = None) -> Sequence[PartitionStatus]:
        """The status of the partitions that run here, in order; None: of all, else of `partitions`."""
        found = sorted(self.runners) if partitions is None else partitions
        return tuple(self._status(self.runners[index]) for index in found if index in self.runners)

    def _status(self, runner: PartitionRunner) -> PartitionStatus:
        return self._settled.get(runner) or runner.status()

    def moving(self) -> Iterator[int]:
        """The partitions that are measured now."""
        return (runner.partition for runner in self._moving if self.runners.get(runner.partition) is runner)

    def running_partitions(self) -> RunningPartitions:
        """Which partitions run here, and how far each is. In one pass: a promote polls this while writes are paused."""
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
        """Where each partition stands, with its producer table at the copy's offsets."""
        runners = (self.runners.get(index) for index in self.partitions)
        return tuple(_end(one) if one is not None and _is_placed(one) else None for one in runners)

    def _is_whole(self) -> bool:
        return len(self.runners) == len(self.partitions)

    # what the partitions ask of the two clusters

    def read_target_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """Read the bounds of the target's log."""
        if delay_s:  # a retry: perhaps the leader has moved
            self._dependencies.target.invalidate(self.period.copy)
        self._dependencies.target_logs.ask(runner.key, delay_s, runner.target_bounds)

    def read_source_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """Read the bounds of the source's log."""
        begins = runner.mirror.phase is PartitionPhase.STARTING and runner.cursor.carried_to is None
        key = (self.period.origin, runner.partition)
        self._dependencies.source_logs.ask(key, delay_s, runner.source_bounds, recent=begins)

    def plan_start(self, runner: PartitionRunner) -> None:
        """Find the present start of the source's log. Retries until it has an answer."""
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
        """Trim the target's log."""
        self._dependencies.tasks.spawn(
            trim(self._dependencies.target, runner, offset, delay_s, self._dependencies.may_append),
            "mirror delete records",
        )

    def work_beside(self, runner: PartitionRunner, command: WorkBeside) -> None:
        """Run the command in the one thread that all mirrors share."""
        self._dependencies.tasks.spawn(work_beside(runner, command), "mirror batches")

    def refresh_source(self) -> None:
        """Refresh the source's metadata soon."""
        self._dependencies.source.invalidate(self.period.origin)

    # what the partitions report

    def readable(self, runner: PartitionRunner) -> None:
        """Report the topic as readable once the last of its partitions is."""
        if not self._readable and self._is_whole() and self._all_readable():
            self._readable = True
            self._dependencies.events.topic_readable(self._dependencies.link, self.record.mirror_topic)

    def _all_readable(self) -> bool:
        return all(one.mirror.readable for one in self.runners.values())

    def failed(self, runner: PartitionRunner, error: MirrorError, message: str) -> None:
        """Report the failure, and stop the partition's fetches and appends."""
        _log.error("link %s: %s-%d FAILED: %s: %s", self._dependencies.link, *runner.key, error, message)
        self._ended(runner)
        self._dependencies.events.partition_failed(
            self._dependencies.link, self.record.mirror_topic, runner.partition, error, message
        )

    def records_lost(self, runner: PartitionRunner, first: int, following: int) -> None:
        """Report the loss; the link is configured to go on."""
        _log.error(
            "link %s: %s-%d: source offsets %d..%d are lost", self._dependencies.link, *runner.key, first, following - 1
        )
        topic = self.record.mirror_topic
        self._dependencies.events.records_lost(self._dependencies.link, topic, runner.partition, first, following)

    def touched(self, runner: PartitionRunner) -> None:
        """Measure the partition again."""
        self._moving[runner] = None
        self._settled.pop(runner, None)

    def advanced(self, runner: PartitionRunner, position: int) -> None:
        """Notify those who wait for this position."""
        self._dependencies.progress.advance(self.record.mirror_topic, runner.partition, position)


def _is_placed(runner: PartitionRunner) -> bool:
    """The copy's log end was read, so the partition has a position."""
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
    """The batches at the copy's offsets. For a batch on the copy, the map's answer never changes."""
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
