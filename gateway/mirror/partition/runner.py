"""Runs one partition's mirror: feeds `PartitionMirror` and carries out what it asks for.

Every input goes through `_do`: an exception fails this partition and no other. Nothing here awaits: a command is a call
of the partition's topic (`PartitionEffects`) or of its offset map (`OffsetEffects`). What takes time there (reads of
logs, DeleteRecords) runs as a task, and comes back as an input.
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
    """What fetches a partition."""

    def touch(self, runner: PartitionRunner) -> None:
        """Something became of this partition: it may be fetched from elsewhere now, or not at all."""


class PartitionEffects(Protocol):
    """What a partition needs of its topic and link. Answers come back as the runner's inputs."""

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
        """The partition may be read."""

    def failed(self, runner: PartitionRunner, error: MirrorError, message: str) -> None:
        """The partition has stopped for good."""

    def records_lost(self, runner: PartitionRunner, first: int, following: int) -> None:
        """The source deleted its offsets `first` .. `following`-1 before they were mirrored; the mirror goes on."""

    def advanced(self, runner: PartitionRunner, position: int) -> None:
        """Everything below `position` (source offset) is on the target."""

    def touched(self, runner: PartitionRunner) -> None:
        """Something became of this partition: it is to be measured again."""


class OffsetEffects(Protocol):
    """What a partition with an offset map needs besides. Each goes on trying until it has an answer."""

    def decide_breakpoints(self, runner: PartitionRunner, log_end: int, run: int, lost: bool) -> None:
        """→ `breakpoints_decided`; `map_delayed` with each failure."""

    def write_breakpoints(self, runner: PartitionRunner, planned: PlannedBreakpoints) -> None:
        """→ `breakpoints_written`; `map_delayed` with each failure."""

    def look_ahead(self, runner: PartitionRunner, offset: int, bound: int) -> None:
        """→ `looked_ahead`, or nothing when it cannot be told now."""


class PartitionRunner:
    """One partition of a mirror topic.

    Attributes:
        key: (mirror topic, partition).
        source_topic_id: 16 bytes, or None when the source has no topic ids.
        appender: of the broker that leads the target partition; None while there is none.
        reader: what fetches it; None while nothing does.
        report: what is measured and shown of it.
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
        """A fetch answer, see `PartitionMirror`. The caller pumps the appenders when all partitions have theirs."""
        self.mirror.source.counts(len(records), follower=follower)
        self._do(self.mirror.fetched, records, high_watermark, now, asked, stable, aborted, log_start)

    def leader_end(self, end: int) -> None:
        """The source's high watermark, told by its leader while a follower is fetched from."""
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
        """There may be another batch to take at once."""
        return self._window.unsent > 0 and not self._window.outcome_unknown

    def take(self) -> Append | None:
        """The next batch for the target, if it is the time."""
        try:
            return self._window.take()
        except Exception as exc:  # noqa: BLE001 - this partition's fault stays this partition's
            self._broken(exc)
            return None

    def append_answered(self, base: int, code: int, landed_at: int, message: str, repeated: bool = False) -> None:
        """The target answered. The caller pumps."""
        self._do(self.mirror.append_answered, base, code, landed_at, message, repeated)

    def append_unknown(self, message: str) -> None:
        """Nobody knows what became of an append."""
        self._do(self.mirror.append_unknown, message)

    def target_unreachable(self, message: str) -> None:
        """There is no connection to append on; what is queued waits."""
        self.mirror.target.last_error = message
        self._effects.touched(self)

    # from above

    def fail(self, error: MirrorError, message: str) -> None:
        """Stop for good, for a reason of the whole topic."""
        self._do(self.mirror.fail, error, message)

    def stop(self, on_quiet: Callable[[], None]) -> None:
        """Hand out nothing more; `on_quiet` is called once no append is in flight."""
        self.mirror.stop()
        self._on_quiet = on_quiet
        self._check_quiet()

    def pump(self) -> None:
        """Send what this partition has."""
        if self.appender is not None:
            self.appender.pump()

    def assign(self, appender: Appender | None) -> None:
        """Another broker leads the target partition."""
        if self.appender is not appender:
            if self.appender is not None:
                self.appender.discard(self)
                self._window.leader_changed()
            self.appender = appender
            self._offer()

    def sample(self, now: float) -> None:
        """Once a second: measure, and keep as little as can be of what a target that stalls does not take."""
        self.report.sample(now)
        if len(self._window) and self._window.position == self._sampled_at:
            self._window.compact()
        self._sampled_at = self._window.position

    def rest(self) -> bool:
        """Nothing was to be measured for a while: True when it need not be until something becomes of it."""
        if len(self._window) or self.report.waits or self.mirror.source.stable < self.mirror.source.end:
            return False
        self.report.rest()
        return True

    def status(self) -> PartitionStatus:
        """As it stands now."""
        return self.report.status(self.partition, self._told)

    def look_at_ids(self, now: float) -> None:
        """Once a second, where ids are written anew: go on when what is waited for is in the id map."""
        rewriter = self.mirror.rewriter
        if rewriter is not None and rewriter.waiting is not None:
            self._do(self.mirror.look_at_ids, now)

    # answers to commands

    def target_bounds(self, found: LogBounds | str) -> None:
        """The target's log, or why it could not be read."""
        if isinstance(found, str):
            self._do(self.mirror.target_log_unknown, found)
        else:
            self._do(self.mirror.target_log, found.start, found.end, found.tail, self._clock())
        self.pump()

    def source_bounds(self, found: LogBounds | str) -> None:
        """The source's log, or why it could not be read."""
        if isinstance(found, str):
            self._do(self.mirror.source_log_unknown, found, self._clock())
        else:
            self._do(self.mirror.source_log, found.start, found.end, self._clock(), found.recent)
        self.pump()

    def producers(self) -> PackedProducers:
        """The last batches of each producer, as far as they are remembered now."""
        self.cursor.producers.age(self._clock())
        return self.cursor.producers.packed()

    def start_planned(self, start: PartitionStart) -> None:
        """A new start."""
        self._do(self.mirror.start_planned, start)

    def deleted(self, error: str) -> None:
        """DeleteRecords went through (error is "") or not."""
        if error:
            self._do(self.mirror.delete_failed, error)
        else:
            self._do(self.mirror.records_deleted)

    def worked(self, command: WorkBeside, opened: Opened | Exception) -> None:
        """What a thread has made of a fetch answer, or how it failed."""
        if isinstance(opened, Exception):
            self._broken(opened)
        else:
            self._do(self.mirror.worked, command, opened, self._clock())
        self.pump()

    def breakpoints_decided(self, log_end: int, run: int) -> None:
        """The ledger is up to the target's log end."""
        self._do(self.mirror.breakpoints_decided, log_end, run)
        self.pump()

    def breakpoints_written(self, planned: PlannedBreakpoints) -> None:
        """They are durable."""
        self._do(self.mirror.breakpoints_written, planned)
        self.pump()

    def map_delayed(self, message: str) -> None:
        """The offset map cannot be read or written now."""
        if not self.mirror.ended:
            self.mirror.target.last_error = message
            self._effects.touched(self)

    def looked_ahead(self, offset: int, bound: int, following: int | None) -> None:
        """Where the source's next batch from an offset on is; None when it sent none."""
        self._do(partial(self.mirror.looked_ahead, following=following), offset, bound)

    # inside

    def _do(self, step: Callable[..., Commands], *args: object) -> None:
        try:
            for command in step(*args):
                execute(command, self, self._effects, self._offsets)
            if self.mirror.phase is PartitionPhase.COPYING and self._window.source_position != self._told:
                if self._told < 0:
                    self.sample(self._clock())  # what the source grows by is counted from here
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
    """One command of the runner's mirror. Raises TypeError for one of an offset map when there is no map."""
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
