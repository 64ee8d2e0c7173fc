"""Runs one partition's mirror: feeds `PartitionMirror` and executes its commands.

Every input goes through `_do`: an exception fails this partition and no other. Nothing here awaits: a command is a call
of the partition's topic (`PartitionEffects`) or of its offset map (`OffsetEffects`). Slow work there (log reads,
DeleteRecords) runs as a task whose result comes back as an input.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.interface import PartitionStatus
from gateway.mirror.partition.appender import Appender
from gateway.mirror.partition.log_reader import LogBounds
from gateway.mirror.partition.report import PartitionReport
from gateway.mirror.partition.rules.append_window import Append
from gateway.mirror.partition.rules.commands import (
    Command,
    Commands,
    DecideBreakpoints,
    DeleteRecords,
    Fail,
    LookAhead,
    PlanStart,
    Readable,
    ReadSourceLog,
    ReadTargetLog,
    RecordsLost,
    RefreshSource,
    WorkBeside,
    WriteBreakpoints,
)
from gateway.mirror.partition.rules.opened import Opened
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.state import PartitionPhase
from gateway.mirror.partition.rules.translator import PlannedBreakpoints
from gateway.state.producer_entries import PackedProducers
from gateway.state.records import MirrorError, PartitionStart

_log = logging.getLogger(__name__)


class PartitionFetcher(Protocol):
    """Fetches a partition."""

    def touch(self, runner: PartitionRunner) -> None:
        """The partition's state changed: its fetch offset may be another now, or it may not be fetched at all."""


class PartitionEffects(Protocol):
    """What a partition needs from its topic and link. Answers come back as the runner's inputs."""

    def read_target_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """→ `target_bounds`."""

    def read_source_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """→ `source_bounds`."""

    def plan_start(self, runner: PartitionRunner) -> None:
        """→ `start_planned`."""

    def delete_records(self, runner: PartitionRunner, offset: int, delay_s: float) -> None:
        """→ `deleted`."""

    def refresh_source(self) -> None:
        """The source's metadata is stale."""

    def work_beside(self, runner: PartitionRunner, command: WorkBeside) -> None:
        """→ `worked`."""

    def readable(self, runner: PartitionRunner) -> None:
        """Clients may read the partition."""

    def failed(self, runner: PartitionRunner, error: MirrorError, message: str) -> None:
        """The partition has stopped for good."""

    def records_lost(self, runner: PartitionRunner, first: int, following: int) -> None:
        """The source deleted its offsets `first` .. `following`-1 before they were mirrored; the mirror goes on."""

    def advanced(self, runner: PartitionRunner, position: int) -> None:
        """Everything below `position` (source offset) is on the target."""

    def touched(self, runner: PartitionRunner) -> None:
        """The partition's state changed: measure it again."""


class OffsetEffects(Protocol):
    """What a partition with an offset map needs in addition. Each method retries until it has an answer."""

    def decide_breakpoints(self, runner: PartitionRunner, log_end: int, run: int, lost: bool) -> None:
        """→ `breakpoints_decided`; `map_delayed` with each failure."""

    def write_breakpoints(self, runner: PartitionRunner, planned: PlannedBreakpoints) -> None:
        """→ `breakpoints_written`; `map_delayed` with each failure."""

    def look_ahead(self, runner: PartitionRunner, offset: int, bound: int) -> None:
        """→ `looked_ahead`, or nothing when the source cannot be read now. Not retried."""


class PartitionRunner:
    """One partition of a mirror topic.

    Attributes:
        key: (mirror topic, partition).
        source_topic_id: 16 bytes, or None when the source has no topic ids.
        appender: of the broker that leads the target partition; None while there is none.
        reader: its fetcher; None while there is none.
        report: its measurements and status.
    """

    __slots__ = (
        "_clock",
        "_effects",
        "_offsets",
        "_on_quiet",
        "_sampled_at",
        "_told",
        "_window",
        "appender",
        "cursor",
        "key",
        "mirror",
        "partition",
        "reader",
        "report",
        "source_topic",
        "source_topic_id",
    )

    def __init__(
        self,
        key: TopicPartition,
        source_topic: str,
        source_topic_id: bytes | None,
        mirror: PartitionMirror,
        effects: PartitionEffects,
        *,
        clock: Callable[[], float],
        wall_ms: Callable[[], int],
        offsets: OffsetEffects | None = None,
    ) -> None:
        self.key = key
        self.partition = key[1]
        self.source_topic = source_topic
        self.source_topic_id = source_topic_id
        self.mirror = mirror
        self.cursor = mirror.source.cursor
        self.appender: Appender | None = None
        self.reader: PartitionFetcher | None = None
        self._window = mirror.window
        self._effects = effects
        self._offsets = offsets
        self._clock = clock
        self._told = -1
        self._sampled_at = -1
        self.report = PartitionReport(mirror, clock, wall_ms)
        self._on_quiet: Callable[[], None] | None = None

    def begin(self) -> None:
        """Start mirroring."""
        self._do(self.mirror.begin)

    # for the fetcher

    def fetched(
        self,
        records: memoryview,
        high_watermark: int,
        now: float,
        asked: int = -1,
        stable: int = -1,
        aborted: Sequence[tuple[int, int]] = (),
        log_start: int = -1,
        *,
        follower: bool = False,
    ) -> None:
        """A fetch answer, see `PartitionMirror`. The caller pumps the appenders once it has served all partitions."""
        self.mirror.source.counts(len(records), follower=follower)
        self._do(self.mirror.fetched, records, high_watermark, now, asked, stable, aborted, log_start)

    def leader_end(self, end: int) -> None:
        """The source's high watermark, from the leader, while the mirror fetches from a follower."""
        source = self.mirror.source
        if end > source.end:
            source.end = end
            self._effects.touched(self)

    def fetch_failed(self, code: int, now: float) -> None:
        """A fetch answer with an error."""
        self._do(self.mirror.fetch_failed, code, now)

    def fetch_diverged(self, epoch: int, end_offset: int) -> None:
        """A fetch answer with a diverging epoch."""
        self._do(self.mirror.fetch_diverged, epoch, end_offset)

    # for the appender

    @property
    def has_more(self) -> bool:
        """There may be another batch to take now."""
        return self._window.unsent > 0 and not self._window.outcome_unknown

    def take(self) -> Append | None:
        """The next batch for the target; None while there is none to send."""
        try:
            return self._window.take()
        except Exception as exc:  # noqa: BLE001 - this partition's fault stays this partition's
            self._broken(exc)
            return None

    def append_answered(self, base: int, code: int, landed_at: int, message: str, repeated: bool = False) -> None:
        """The target answered the append that expected `base`. The caller pumps."""
        self._do(self.mirror.append_answered, base, code, landed_at, message, repeated)

    def append_unknown(self, message: str) -> None:
        """The outcome of an append is unknown."""
        self._do(self.mirror.append_unknown, message)

    def target_unreachable(self, message: str) -> None:
        """There is no connection for appends; queued batches wait."""
        self.mirror.target.last_error = message
        self._effects.touched(self)

    # from above

    def fail(self, error: MirrorError, message: str) -> None:
        """Stop for good, for a reason that concerns the whole topic."""
        self._do(self.mirror.fail, error, message)

    def stop(self, on_quiet: Callable[[], None]) -> None:
        """Stop, and call `on_quiet` once no append is in flight."""
        self.mirror.stop()
        self._on_quiet = on_quiet
        self._check_quiet()

    def pump(self) -> None:
        """Have the partition's appender send what it can."""
        if self.appender is not None:
            self.appender.pump()

    def assign(self, appender: Appender | None) -> None:
        """Set the appender of the broker that leads the target partition now; None while no leader is known."""
        if self.appender is not appender:
            if self.appender is not None:
                self.appender.discard(self)
                self._window.leader_changed()
            self.appender = appender
            self._offer()

    def sample(self, now: float) -> None:
        """Once a second: measure, and free what memory can be freed while the target stalls."""
        self.report.sample(now)
        if len(self._window) and self._window.position == self._sampled_at:
            self._window.compact()
        self._sampled_at = self._window.position

    def rest(self) -> bool:
        """The partition has been idle for a while. True when it need not be measured until its state changes."""
        if len(self._window) or self.report.waits or self.mirror.source.stable < self.mirror.source.end:
            return False
        self.report.rest()
        return True

    def status(self) -> PartitionStatus:
        """The present status."""
        return self.report.status(self.partition, self._told)

    def look_at_ids(self, now: float) -> None:
        """Once a second, where ids are rewritten: resume when the id map has the missing ids."""
        rewriter = self.mirror.rewriter
        if rewriter is not None and rewriter.waiting is not None:
            self._do(self.mirror.look_at_ids, now)

    # answers to commands

    def target_bounds(self, found: LogBounds | str) -> None:
        """The bounds of the target's log, or why they could not be read."""
        if isinstance(found, str):
            self._do(self.mirror.target_log_unknown, found)
        else:
            self._do(self.mirror.target_log, found.start, found.end, found.tail, self._clock())
        self.pump()

    def source_bounds(self, found: LogBounds | str) -> None:
        """The bounds of the source's log, or why they could not be read."""
        if isinstance(found, str):
            self._do(self.mirror.source_log_unknown, found, self._clock())
        else:
            self._do(self.mirror.source_log, found.start, found.end, self._clock(), found.recent)
        self.pump()

    def producers(self) -> PackedProducers:
        """The last batches of each producer, without those of producers that have been silent for long."""
        self.cursor.producers.age(self._clock())
        return self.cursor.producers.packed()

    def start_planned(self, start: PartitionStart) -> None:
        """The mirror's new start."""
        self._do(self.mirror.start_planned, start)

    def deleted(self, error: str) -> None:
        """DeleteRecords succeeded (`error` is "") or failed."""
        if error:
            self._do(self.mirror.delete_failed, error)
        else:
            self._do(self.mirror.records_deleted)

    def worked(self, command: WorkBeside, opened: Opened | Exception) -> None:
        """The thread has opened a fetch answer, or failed."""
        if isinstance(opened, Exception):
            self._broken(opened)
        else:
            self._do(self.mirror.worked, command, opened, self._clock())
        self.pump()

    def breakpoints_decided(self, log_end: int, run: int) -> None:
        """The ledger has decided every breakpoint below the target's log end."""
        self._do(self.mirror.breakpoints_decided, log_end, run)
        self.pump()

    def breakpoints_written(self, planned: PlannedBreakpoints) -> None:
        """The breakpoints are durable."""
        self._do(self.mirror.breakpoints_written, planned)
        self.pump()

    def map_delayed(self, message: str) -> None:
        """The offset map cannot be read or written now."""
        if not self.mirror.ended:
            self.mirror.target.last_error = message
            self._effects.touched(self)

    def looked_ahead(self, offset: int, bound: int, following: int | None) -> None:
        """The base offset of the source's next batch at or beyond `offset`; None when the source sent none."""
        self._do(partial(self.mirror.looked_ahead, following=following), offset, bound)

    # inside

    def _do(self, step: Callable[..., Commands], *args: object) -> None:
        try:
            for command in step(*args):
                execute(command, self, self._effects, self._offsets)
            if self.mirror.phase is PartitionPhase.COPYING and self._window.source_position != self._told:
                if self._told < 0:
                    self.sample(self._clock())  # the growth of the source is counted from here
                self._told = self._window.source_position
                if self.mirror.translator is not None:
                    self.mirror.translator.ledger.map.advance(self._window.position, self._told)
                self._effects.advanced(self, self._told)
        except Exception as exc:  # noqa: BLE001 - this partition's fault stays this partition's
            self._broken(exc)
        self._offer()
        self._effects.touched(self)
        if self.reader is not None:
            self.reader.touch(self)
        if self._on_quiet is not None:
            self._check_quiet()

    def _offer(self) -> None:
        if self.appender is not None and self._window.unsent and not self._window.outcome_unknown:
            self.appender.ready(self)

    def _broken(self, exc: Exception) -> None:
        _log.exception("the mirror of %s-%d stopped", *self.key, exc_info=exc)
        for command in self.mirror.fail(MirrorError.INTERNAL_ERROR, f"{type(exc).__name__}: {exc}"):
            execute(command, self, self._effects, self._offsets)

    def _check_quiet(self) -> None:
        if self._window.outstanding == 0 and self._on_quiet is not None:
            on_quiet, self._on_quiet = self._on_quiet, None
            on_quiet()


def execute(
    command: Command, runner: PartitionRunner, effects: PartitionEffects, offsets: OffsetEffects | None
) -> None:
    """Execute one command of the runner's mirror. Raises TypeError for an offset-map command when there is no map."""
    match command:
        case ReadTargetLog(delay_s):
            effects.read_target_log(runner, delay_s)
        case ReadSourceLog(delay_s):
            effects.read_source_log(runner, delay_s)
        case RefreshSource():
            effects.refresh_source()
        case Readable():
            effects.readable(runner)
        case DeleteRecords(offset, delay_s):
            effects.delete_records(runner, offset, delay_s)
        case RecordsLost(first, following):
            effects.records_lost(runner, first, following)
        case PlanStart():
            effects.plan_start(runner)
        case WorkBeside():
            effects.work_beside(runner, command)
        case Fail(error, message):
            effects.failed(runner, error, message)
        case _:
            _execute_for_map(command, runner, offsets)


def _execute_for_map(command: Command, runner: PartitionRunner, offsets: OffsetEffects | None) -> None:
    if offsets is None:
        raise TypeError(f"nobody to carry out {command}")
    match command:
        case DecideBreakpoints(log_end, run, lost):
            offsets.decide_breakpoints(runner, log_end, run, lost)
        case WriteBreakpoints(planned):
            offsets.write_breakpoints(runner, planned)
        case LookAhead(offset, bound):
            offsets.look_ahead(runner, offset, bound)
