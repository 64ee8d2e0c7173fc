"""Appends one partition's batches to the target as its mirror would: the shell around the mirror's own partition.

What is appended where, under which producer id and sequence, what an answer of the broker means, padding and trimming:
all of that is decided by `mirror/partition/rules` and run by `PartitionRunner`, as in the live engine. Here the batches
come from rows instead of from a fetcher, and waiting ends: with the last batch, a failure, or no progress.

No breakpoint of a partition's offset map is written while a loss is not told (`lost_records.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from gateway.jobs.lost_records import LostRange, TellLost
from gateway.jobs.source.clusters import AppendFailed, Clusters
from gateway.jobs.source.mirrors import MirrorSpec
from gateway.jobs.source.segments import Segment
from gateway.kafka.cluster import ClusterView, NetError
from gateway.kafka.logs.range_reader import BatchChunk
from gateway.mirror.offset_map.partitions import TopicOffsetMaps
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.mirror.offset_map.topic import LinkMaps
from gateway.mirror.partition.appender import Appender
from gateway.mirror.partition.log_reader import LogBounds
from gateway.mirror.partition.log_start import earliest_start
from gateway.mirror.partition.rules.commands import WorkBeside
from gateway.mirror.partition.rules.opened import beside
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.translator import PlannedBreakpoints
from gateway.mirror.partition.runner import OffsetEffects, PartitionRunner
from gateway.mirror.partition.trim import trim
from gateway.state.records import MirrorError, PartitionStart
from protocol.batch.work import unlimited
from protocol.errors import ErrorCode, ProtocolError


class BehindLosses:
    """Implements `OffsetEffects` of one partition, by `offsets`. `tell`: takes the losses."""

    def __init__(self, offsets: OffsetEffects, tell: TellLost) -> None:
        self._offsets = offsets
        self._tell = tell
        self._untold = 0
        self._held: list[PlannedBreakpoints] = []

    def lost(self, runner: PartitionRunner, lost: LostRange) -> None:
        """Tell of a loss. What is to be written from now on waits until that is done."""
        self._untold += 1
        self._tell(lost, lambda: self._told(runner))

    def _told(self, runner: PartitionRunner) -> None:
        self._untold -= 1
        if self._untold:
            return
        held, self._held = self._held, []
        translator = runner.mirror.translator
        for planned in held:
            # After an unknown outcome all that was planned is planned anew: its batches were never sent.
            if translator is not None and planned.run == translator.run and not runner.mirror.ended:
                self._offsets.write_breakpoints(runner, planned)

    def write_breakpoints(self, runner: PartitionRunner, planned: PlannedBreakpoints) -> None:
        """Once all losses are told."""
        if self._untold:
            self._held.append(planned)
        else:
            self._offsets.write_breakpoints(runner, planned)

    def decide_breakpoints(self, runner: PartitionRunner, log_end: int, run: int, lost: bool) -> None:
        """At once."""
        self._offsets.decide_breakpoints(runner, log_end, run, lost)

    def look_ahead(self, runner: PartitionRunner, offset: int, bound: int) -> None:
        """At once."""
        self._offsets.look_ahead(runner, offset, bound)


PATIENCE_S: Final = 120.0
"""How long the target may take nothing, for whatever passing reason, before appending fails."""

MOST_SEGMENTS: Final = 100_000
"""Of one range in a report; the map topic has them all."""

_LOOK_S: Final = 1.0
_NO_END: Final = 2**63 - 1


class PartitionAppend:
    """One partition. Implements `PartitionEffects`.

    Args:
        first: base offset of the first batch to come, for when there is no source to ask.

    Attributes:
        lost: what the source deleted before it was copied, so far.
    """

    def __init__(
        self,
        mirror: MirrorSpec,
        partition: int,
        first: int,
        clusters: Clusters,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._clusters = clusters
        self._first = first
        self._patience_s = patience_s
        self._done: Callable[[], bool] = lambda: False
        self._woken: asyncio.Future[None] | None = None
        self._failure: tuple[MirrorError, str] | None = None
        self._source_end = -1
        self.lost: list[LostRange] = []
        self._skips = mirror.skip_deleted
        maps = clusters.maps_of(mirror)
        self._offsets = None if maps is None else BehindLosses(self._topic_maps(maps), clusters.tell_lost)
        self.runner = PartitionRunner(
            (mirror.mirror_topic, partition),
            mirror.source_topic,
            None,
            PartitionMirror(
                mirror.starts[partition],
                mirror.producer_id,
                wall_ms=_wall_ms,
                ledger=None if maps is None else maps.ledger(mirror.map_key(partition), _implied(mirror, partition)),
                compacted=mirror.compacted,
                skip_deleted=mirror.skip_deleted,
            ),
            self,
            clock=time.monotonic,
            wall_ms=_wall_ms,
            offsets=self._offsets,
        )

    def _topic_maps(self, maps: LinkMaps) -> TopicOffsetMaps:
        clusters = self._clusters
        if clusters.source is None:
            raise AppendFailed("offsets that differ on the two clusters: to append such rows the source is needed too")
        return TopicOffsetMaps(maps, clusters.source, clusters.target, clusters.tasks, lambda _, __: self._look())

    @property
    def has_map(self) -> bool:
        """Offsets may differ: what was read is to be offered, not appended."""
        return self.runner.mirror.translator is not None

    @property
    def translates(self) -> bool:
        """Offsets do differ."""
        return self.runner.mirror.translates

    @property
    def fetch_offset(self) -> int:
        """The source offset to read next. In mode translate it may go back, when another appender was faster."""
        return self.runner.cursor.fetch_offset

    @property
    def position(self) -> int:
        """The next target offset; everything below is on the target."""
        return self.runner.mirror.window.position

    @property
    def records(self) -> int:
        """What the target was seen to acknowledge."""
        return self.runner.mirror.window.records

    @property
    def bytes(self) -> int:
        """Of those records."""
        return self.runner.mirror.window.bytes

    async def begin(self) -> None:
        """Read both logs, pad the target if it is empty, and be ready for batches. Raises AppendFailed."""
        target = self._clusters.target
        target.on_view.append(self._view_changed)
        self._assign()
        if self.runner.appender is None:  # not asked for yet; the runner's own reads ask as well
            target.invalidate(self.runner.key[0])
        self.runner.begin()
        await self._until(lambda: self.runner.mirror.copying)

    async def append(self, records: memoryview, following: int) -> None:
        """Append the next batches; the last of them may still be in flight when this returns.

        Args:
            records: batches that follow one another.
            following: the offset after the last of them.

        Raises:
            AppendFailed: a batch that does not fit, or a target that does not take it.
        """
        self._source_end = max(self._source_end, following, self.runner.mirror.source.end)
        self.runner.fetched(records, self._source_end, time.monotonic())
        self.runner.pump()
        self._check()
        if self.runner.cursor.position < following:
            raise self._error(f"a row's batch is damaged or incomplete: {self.runner.mirror.last_error}")
        # Nothing is sent while the caller fetches more rows, so all of these go out first: the last few are in flight.
        await self._until(lambda: not self.runner.mirror.window.unsent)

    async def offer(self, chunk: BatchChunk, asked: int, source_end: int) -> None:
        """Append what was read from the source offset `asked`, whose offsets may differ on the target.

        Nothing of it counts when another appender is at work meanwhile: `fetch_offset` tells what to read next.

        Raises:
            AppendFailed: as `append`.
        """
        self._source_end = max(self._source_end, source_end, self.runner.mirror.source.end)
        end = self._source_end
        self.runner.fetched(chunk.records, end, time.monotonic(), asked, end, chunk.transactions)
        self.runner.pump()
        self._check()
        await self.ready()

    async def refused(self, code: int) -> bool:
        """The source does not have what `fetch_offset` says. True when the mirror goes on behind what is gone.

        Raises:
            AppendFailed: the mirror may not go on.
        """
        if not self._skips or code != ErrorCode.OFFSET_OUT_OF_RANGE:
            return False
        at = self.fetch_offset
        self.runner.fetch_failed(code, time.monotonic())
        await self._until(lambda: self.fetch_offset != at and self.runner.mirror.copying)
        return True

    async def ready(self) -> None:
        """Wait until more may be offered. Raises AppendFailed."""
        window = self.runner.mirror.window
        await self._until(lambda: self.runner.mirror.copying and not window.outcome_unknown and not window.unsent)

    async def finish(self) -> None:
        """Wait until all is on the target and may be read. Raises AppendFailed."""
        mirror = self.runner.mirror
        await self._until(lambda: not len(mirror.window) and not mirror.window.outcome_unknown and mirror.readable)

    def segments(self, first: int) -> tuple[Segment, ...]:
        """The map from the target offset `first` on; nothing of one with too many pieces to be sent around."""
        translator = self.runner.mirror.translator
        if translator is None or len(translator.ledger.map) > MOST_SEGMENTS:
            return ()
        topic, partition = self.runner.key
        found = translator.ledger.map.segments()
        return tuple(
            Segment(topic, partition, source, target, count)
            for source, target, count in found
            if target + count > first
        )

    def close(self) -> None:
        """Append no more."""
        self._clusters.target.on_view.remove(self._view_changed)
        self.runner.stop(lambda: None)
        self.runner.assign(None)

    async def _until(self, done: Callable[[], bool]) -> None:
        """Wait for a condition that only an input of the runner can make true."""
        loop = asyncio.get_running_loop()
        seen, deadline = self._progress(), loop.time() + self._patience_s
        self._done = done
        while self._failure is None and not done():
            self._woken = loop.create_future()
            await asyncio.wait((self._woken,), timeout=_LOOK_S)
            now = self._progress()
            if now != seen:
                seen, deadline = now, loop.time() + self._patience_s
            elif loop.time() > deadline:
                why = self.runner.mirror.last_error or "the target does not answer"
                raise self._error(f"no progress for {self._patience_s:g} s: {why}")
            elif self.runner.appender is None:  # no leader known
                self._clusters.target.invalidate(self.runner.key[0])
        self._check()

    def _look(self) -> None:
        """Something changed; whoever waits is woken once, not by each of thousands of answers."""
        woken = self._woken
        if woken is not None and not woken.done() and (self._failure is not None or self._done()):
            woken.set_result(None)

    def _progress(self) -> object:
        mirror = self.runner.mirror
        return mirror.phase, mirror.window.position, mirror.readable

    def _check(self) -> None:
        if self._failure is not None:
            raise self._error("{}: {}".format(*self._failure))

    def _error(self, why: str) -> AppendFailed:
        topic, partition = self.runner.key
        return AppendFailed(f"{topic}-{partition} at target offset {self.position}: {why}")

    def _view_changed(self, _: ClusterView) -> None:
        self._assign()

    def _assign(self) -> None:
        clusters = self._clusters
        leader = clusters.target.leader(*self.runner.key)
        if leader is None:
            self.runner.assign(None)
            return
        if leader not in clusters.appenders:
            clusters.appenders[leader] = Appender(clusters.target, leader, clusters.tasks, clusters.may_append)
        self.runner.assign(clusters.appenders[leader])
        self.runner.pump()

    # what the partition asks of the two clusters

    def read_target_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """Ask the target."""
        if delay_s:  # a retry: perhaps the leader has moved
            self._clusters.target.invalidate(runner.key[0])
        self._clusters.target_logs.ask(runner.key, delay_s, runner.target_bounds)

    def read_source_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """Ask the source; without one, the source is what will come."""
        if self._clusters.source_logs is None:
            bounds = LogBounds(self._first, _NO_END, None)
            asyncio.get_running_loop().call_soon(runner.source_bounds, bounds)
        else:
            self._clusters.source_logs.ask((runner.source_topic, runner.partition), delay_s, runner.source_bounds)

    def plan_start(self, runner: PartitionRunner) -> None:
        """The source lost its first records before any was copied: find its new start."""
        self._clusters.tasks.spawn(self._plan_start(runner), "plan start")

    async def _plan_start(self, runner: PartitionRunner) -> None:
        source = self._clusters.source
        if source is None:
            runner.start_planned(PartitionStart(self._first, self._first))
            return
        try:
            runner.start_planned(await earliest_start(source, runner.source_topic, runner.partition))
        except (NetError, ProtocolError) as exc:
            runner.fail(MirrorError.INTERNAL_ERROR, f"where the source starts: {exc}")

    def delete_records(self, runner: PartitionRunner, offset: int, delay_s: float) -> None:
        """Trim the target."""
        self._clusters.tasks.spawn(trim(self._clusters.target, runner, offset, delay_s, lambda: True), "delete records")

    def work_beside(self, runner: PartitionRunner, command: WorkBeside) -> None:
        """Never asked for: a job may open batches as they come."""
        runner.worked(command, command.work(beside(unlimited)))

    def refresh_source(self) -> None:
        """Rows cannot be had again: what is wrong with one shows in `append`."""

    # what it tells

    def readable(self, runner: PartitionRunner) -> None:
        """The partition may be read."""
        self._look()

    def failed(self, runner: PartitionRunner, error: MirrorError, message: str) -> None:
        """The partition has stopped for good."""
        self._fail(error, message)

    def records_lost(self, runner: PartitionRunner, first: int, following: int) -> None:
        """The link says to go on, once it is told."""
        lost = LostRange(runner.source_topic, runner.partition, first, following)
        self.lost.append(lost)
        if self._offsets is not None:
            self._offsets.lost(runner, lost)

    def touched(self, runner: PartitionRunner) -> None:
        """Nothing is measured in a job."""

    def advanced(self, runner: PartitionRunner, position: int) -> None:
        """More is on the target."""
        self._look()

    def _fail(self, error: MirrorError, message: str) -> None:
        self._failure = error, message
        self._look()


def _implied(mirror: MirrorSpec, partition: int) -> Breakpoint:
    return Breakpoint(*mirror.implied[partition])


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
