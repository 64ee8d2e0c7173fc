"""One partition's mirror, without I/O: from what the source and the target answer to what is asked of them next.

Theory of operation
-------------------
The target partition is written under one producer id, epoch 0, and every batch carries its own target offset
(mod 2^31) as sequence number. So the target's broker refuses anything that is not the exact continuation of
its log, and nothing needs to be remembered across a crash: the position is the target's log end.

Phases::

    STARTING ──► PADDING ──► STARTING          (both logs are read again when the padding is done)
        └──────► COPYING
    any ──► FAILED (for good), any ──► STOPPED

STARTING reads both logs and decides. PADDING appends null records up to `PartitionStart.pad_to`. COPYING queues
what was fetched (`SourceSide`) and hands it out in order (`TargetSide`). A partition is *settled* (may be read)
once it is padded and the target's log start has been moved up to `source_start`; from then on its offsets are a
promise, so a source that lost records is an error and no reason to pad again.

`TargetSide` speaks target offsets and `SourceSide` source offsets. In mode preserve they are the same number. In mode
translate an offset map stands between them (`domain/translator.py`): the source position is what the map says for the
target's log end, so it too is never remembered. Such a partition is not padded, and settled at once. A partition in
mode preserve that has a ledger goes over to the slow path at the first batch that needs it, and to mode translate with
the first breakpoint.

All inputs return the commands to carry out (`partition_commands`). `now` is a monotonic clock in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from gateway.domain.append_window import MAX_IN_FLIGHT, Append, AppendWindow, Pending
from gateway.domain.log_tail import CannotMirror, LogTail
from gateway.domain.offset_ledger import OffsetLedger
from gateway.domain.partition_commands import (
    NOTHING,
    Commands,
    DecideBreakpoints,
    DeleteRecords,
    Fail,
    PlanStart,
    ReadSourceLog,
    ReadTargetLog,
    RecordsLost,
    Settled,
    WriteBreakpoints,
)
from gateway.domain.records import MirrorError, PartitionStart
from gateway.domain.source_side import SourceSide, records_lost
from gateway.domain.target_side import TargetSide
from gateway.domain.translator import Planned, Translator
from protocol.errors import ErrorCode, error_name
from protocol.reencode import Skip

PADDING_BATCH: Final = 1_000_000


class Phase(StrEnum):
    """Where a partition's mirror is. PAUSED is for whoever shows a mirror that is not run."""

    STARTING = "starting"
    PADDING = "padding"
    COPYING = "copying"
    PAUSED = "paused"
    FAILED = "failed"
    STOPPED = "stopped"


class PartitionMirror:
    """See the module's text.

    Args:
        start: where the mirror begins.
        producer_id: under which the target partition is written.
        wall_ms: the time of day in milliseconds, for the timestamps of padding.
        handed_over_at: the target's log end when this mirror began; what is below may be of other writers.
        ledger: of the partition's offset map; None: offsets must be equal, and a log that cannot have them fails.
        compacted: records of the source may vanish while they are copied.
        skip_deleted: go on behind records that the source deleted before they were copied, and tell of the loss. Needs
            a ledger: they leave a hole.

    Attributes:
        settled: the partition may be read.
        target_start: the target's log start as last seen.
    """

    __slots__ = (
        "_contested_end",
        "_deciding",
        "_deleting",
        "_handed_over_at",
        "_padding_batch",
        "_producer_id",
        "_skip_deleted",
        "_source_bounds",
        "_start",
        "_tail",
        "_target_known",
        "_wall_ms",
        "phase",
        "settled",
        "source",
        "target",
        "target_start",
        "translator",
        "window",
    )

    def __init__(
        self,
        start: PartitionStart,
        producer_id: int,
        *,
        wall_ms: Callable[[], int],
        handed_over_at: int = 0,
        ledger: OffsetLedger | None = None,
        compacted: bool = False,
        skip_deleted: bool = False,
    ) -> None:
        self._start = start
        self._handed_over_at = handed_over_at
        self._producer_id = producer_id
        self._wall_ms = wall_ms
        self.window = AppendWindow(producer_id)
        self.source = SourceSide(self.window)
        self.target = TargetSide(self.window)
        self.phase = Phase.STARTING
        self.settled = False
        self.target_start = 0
        self._target_known = False
        self._source_bounds: tuple[int, int] | None = None
        self._tail: LogTail | None = None
        self._deleting = False
        self._padding_batch = PADDING_BATCH
        self._contested_end: int | None = None  # a target log end that the source must confirm
        self._deciding = False  # the ledger is being brought up to the target's log end
        self.translator = None if ledger is None else Translator(ledger, self.window, producer_id)
        self.source.cursor.may_slow_down = self.translator
        self._skip_deleted = skip_deleted and self.translator is not None
        if compacted:
            self.window.most_in_flight = 1

    @property
    def ended(self) -> bool:
        """Failed or stopped."""
        return self.phase is Phase.FAILED or self.phase is Phase.STOPPED

    @property
    def mirrored_to(self) -> int:
        """The next source offset to mirror: everything below is on the target, or not to be copied."""
        return self.window.source_position

    @property
    def translates(self) -> bool:
        """The offsets are not equal, or need not be: mode translate."""
        return self.translator is not None and (self._start.is_translated or self.translator.ledger.used)

    @property
    def _slow(self) -> bool:
        return self.translates or self.source.cursor.slow_path is not None

    @property
    def last_error(self) -> str:
        """What is being retried now, "" when all goes well."""
        return self.target.last_error or self.source.last_error

    # -- both logs ---------------------------------------------------------------------------------------------

    def begin(self) -> Commands:
        """Start, or decide again after padding: read both logs.

        First the target's, then the source's: another appender may be at work, and the source must not look
        shorter than its copy.
        """
        self.phase = Phase.STARTING
        self._target_known = False
        self._source_bounds = None
        self.source.asked = True
        self._deciding = False
        if self.translator is not None:
            self.translator.begin_run()
        return (ReadTargetLog(),)

    def target_log(self, start: int, end: int, tail: LogTail | None, now: float) -> Commands:
        """The target's log start and end, as ListOffsets gave them, and its last batch (None: the log is empty)."""
        self.target_start = start
        self._tail = tail
        if self.phase is Phase.STARTING and not self._target_known:
            return self._guarded(lambda: self._begin_at(end))
        if self.window.wants_log_end and self._contested_end is None and not self._deciding:
            return self._guarded(lambda: self._resolve_doubt(end, now))
        return NOTHING

    def _begin_at(self, end: int) -> Commands:
        if end < self._handed_over_at:
            raise CannotMirror(
                MirrorError.TARGET_DIVERGED,
                f"the target's log ends at {end}; it ended at {self._handed_over_at} when this mirror began",
            )
        self._check_tail()
        self._target_known = True
        self.target.last_error = ""
        self.window.resume(end)
        return (ReadSourceLog(),) if self.translator is None else self._decide(self.translator, end)

    def _decide(self, translator: Translator, end: int) -> Commands:
        self._deciding = True
        return (DecideBreakpoints(end, translator.run),)

    def breakpoints_decided(self, end: int, run: int) -> Commands:
        """The ledger knows all breakpoints below the target's log end `end`."""
        translator = self.translator
        if self.ended or not self._deciding or translator is None or run != translator.run:
            return NOTHING
        self._deciding = False
        self.target.last_error = ""
        if self.phase is Phase.STARTING:
            self.source.cursor.slow_path = translator if self.translates else None
            return (ReadSourceLog(),)
        if self._slow:
            self.window.clear()
            self.source.cursor.slow_path = translator
        self._contested_end = end
        return self._guarded(lambda: self._confirm(self._source_offset(end)))

    def breakpoints_written(self, planned: Planned) -> Commands:
        """They are durable: the batches that waited for them may go."""
        if self.translator is not None and not self.ended:
            self.translator.durable(planned.up_to, planned.run)
        return NOTHING

    def looked_ahead(self, offset: int, bound: int, *, found: bool) -> Commands:
        """The source has a batch at or beyond `offset`, or none up to `bound`."""
        cursor, translator = self.source.cursor, self.translator
        busy = self.phase is not Phase.COPYING or self._deciding or self.window.in_doubt  # contested: in doubt too
        if busy or found or translator is None or cursor.fetch_offset != offset:
            return NOTHING
        if cursor.slow_path is None:
            cursor.slow_path = translator
            translator.go_on(cursor.position)
        translator.put(Skip(bound))
        cursor.go_on(bound)
        planned = translator.planned()
        return NOTHING if planned is None else (WriteBreakpoints(planned),)

    def _source_offset(self, end: int) -> int:
        """Where reading goes on when the target's log ends at `end`."""
        if not self._slow or self.translator is None:
            return end
        try:
            return self.translator.ledger.position(end)
        except LookupError as exc:
            raise CannotMirror(MirrorError.TARGET_DIVERGED, f"the target's log ends at {end}, but {exc}") from None

    def _check_tail(self) -> None:
        if self._tail is not None and self._tail.following > self._handed_over_at:
            self._tail.check_ours(self._producer_id)

    def target_log_unknown(self, message: str) -> Commands:
        """The target's log could not be read."""
        return NOTHING if self.ended else self.target.log_unknown(message)

    def source_log(self, start: int, end: int) -> Commands:
        """The source's log start and high watermark, as ListOffsets gave them."""
        self.source.asked = False
        self._source_bounds = (start, end)
        self.source.end = max(self.source.end, end)
        if self.phase is Phase.STARTING:
            return self._guarded(self._place)
        if self._contested_end is not None:
            return self._guarded(self._accept_log_end)
        return self._guarded(lambda: self._check_bounds(start, end))

    def source_log_unknown(self, message: str, now: float) -> Commands:
        """The source's log could not be read."""
        self.source.asked = False
        if self.ended:
            return NOTHING
        self.source.back_off(message, now)
        if self.phase is Phase.STARTING:  # what the target holds can be served without the source
            return self._guarded(self._place)
        if self._contested_end is not None:
            self.source.asked = True
            return (ReadSourceLog(1.0),)
        return NOTHING

    def start_planned(self, start: PartitionStart) -> Commands:
        """The source lost records before any was copied: this is the new start."""
        if self.phase is not Phase.STARTING:
            return NOTHING
        self._start = start
        return self.begin()

    def records_deleted(self) -> Commands:
        """The target's log start is at `source_start` now."""
        self._deleting = False
        self.target_start = max(self.target_start, self._start.source_start)
        return self._guarded(self._place if self.phase is Phase.STARTING else self._settle)

    def delete_failed(self, message: str) -> Commands:
        """DeleteRecords did not go through: try again."""
        if self.ended:
            return NOTHING
        self.target.last_error = message
        return (DeleteRecords(self._start.source_start, 1.0),)

    def _place(self) -> Commands:
        """The target's log is known, and the source's too unless it is out of reach: decide where to begin."""
        if self.translates and self.translator is not None:
            return self._place_translated(self.translator)
        position, start = self.window.position, self._start
        if self._source_bounds is not None:
            first, end = self._source_bounds
            if position <= start.pad_to and first > start.source_start:  # nothing copied: the start may still move
                return (PlanStart(),)
            self._check_start(first, end)
        if position < start.pad_to:
            self.phase = Phase.PADDING
            self._queue_padding()
            return NOTHING
        if self.target_start < start.source_start <= position:
            return self._delete_records()
        self.phase = Phase.COPYING
        first = self._source_bounds[0] if self._source_bounds else max(position, start.source_start)
        copied = position > max(start.pad_to, self._handed_over_at)  # else the last batch is another writer's
        self.source.cursor.start(position, first, self._tail if copied else None)
        lost = self._skip_to(first) if position < first else NOTHING
        return (*lost, *self._settle()) if position >= start.source_start else lost

    def _place_translated(self, translator: Translator) -> Commands:
        window = self.window
        at = self._source_offset(window.position)
        first = at
        if self._source_bounds is not None:
            first, end = self._source_bounds
            if at > end:
                raise CannotMirror(
                    MirrorError.UNEXPECTED_TRUNCATION,
                    f"the source's log ends at {end}, but its mirror stands at {at}: the source was truncated, or "
                    "something else wrote to the target partition",
                )
            if at < first and self._copied and not self._skip_deleted:
                raise records_lost(at, first)
        lost: Commands = (RecordsLost(at, first),) if at < first and self._copied else NOTHING
        at = max(at, first)
        window.source_position = at
        translator.go_on(at)
        self.phase = Phase.COPYING
        self.source.cursor.start(at, first)
        start = self._start
        if not start.is_translated and self.target_start < start.source_start <= window.position:
            return (*lost, *self._delete_records())
        ready = start.is_translated or window.position >= start.source_start
        return (*lost, *self._settle()) if ready else lost

    @property
    def _copied(self) -> bool:
        """The target has something that this mirror appended."""
        if self._start.is_translated:
            return self.window.position > self._handed_over_at
        return self.window.position > self._start.pad_to

    def _check_start(self, first: int, end: int) -> None:
        position, pad_to = self.window.position, self._start.pad_to
        if max(position, pad_to) > end:
            raise CannotMirror(
                MirrorError.TARGET_DIVERGED if position > end else MirrorError.UNEXPECTED_TRUNCATION,
                f"the source's log ends at {end}, but its mirror stands at {max(position, pad_to)}: "
                "the source was truncated, or something else wrote to the target partition",
            )
        if pad_to < position < first and not self._skip_deleted:
            raise records_lost(position, first)

    def _skip_to(self, first: int) -> Commands:
        """Read on at `first`: what the source had before is a hole."""
        cursor, translator = self.source.cursor, self.translator
        lost_from = cursor.position
        if translator is None or not self._skip_deleted:
            return NOTHING
        if cursor.slow_path is None:
            cursor.slow_path = translator
            translator.go_on(lost_from)
        translator.reason = translator.reason or (
            f"source offsets {lost_from}..{first - 1} were deleted on the source before they were mirrored"
        )
        translator.put(Skip(first))
        cursor.go_on(first)
        planned = translator.planned()
        lost = RecordsLost(lost_from, first)
        return (lost,) if planned is None else (lost, WriteBreakpoints(planned))

    def _delete_records(self) -> Commands:
        if self._deleting:
            return NOTHING
        self._deleting = True
        return (DeleteRecords(self._start.source_start),)

    def _settle(self) -> Commands:
        if self.settled:
            return NOTHING
        self.settled = True
        return (Settled(),)

    # -- source ------------------------------------------------------------------------------------------------

    def wants_fetch(self, now: float) -> bool:
        """True when the partition should be in the next fetch, from `source.cursor.fetch_offset`."""
        return self.phase is Phase.COPYING and self.source.ready(now)

    def fetched(
        self,
        records: memoryview | None,
        high_watermark: int,
        now: float,
        asked: int = -1,
        stable: int = -1,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> Commands:
        """A fetch answer without error.

        Args:
            asked: the offset it was asked from; in mode translate nothing else tells a late answer from a hole.
            stable: the last stable offset, -1 when not told.
            aborted: the aborted transactions in it, (producer id, first offset).
        """
        if self.phase is not Phase.COPYING:
            return NOTHING
        translator = self.translator
        if translator is not None:
            # Until the position is known again, and when the question was another one, this is no continuation.
            unknown = self._deciding or (self._slow and self._contested_end is not None)
            if unknown or (asked >= 0 and asked != self.source.cursor.fetch_offset):
                return NOTHING
        try:
            commands = self.source.fetched(records, high_watermark, now, stable, aborted)
        except CannotMirror as exc:
            return self.fail(exc.error, str(exc))
        if translator is not None and (planned := translator.planned()) is not None:
            return (*commands, WriteBreakpoints(planned))
        return commands

    def fetch_failed(self, code: int, now: float) -> Commands:
        """A fetch answer with an error for this partition."""
        if self.phase is not Phase.COPYING:
            return NOTHING
        return self._guarded(lambda: self.source.failed(code, now))

    def fetch_diverged(self, epoch: int, end_offset: int) -> Commands:
        """A fetch answer with a diverging epoch (KIP-595)."""
        if self.phase is not Phase.COPYING:
            return NOTHING
        exc = self.source.diverged(epoch, end_offset)
        return self.fail(exc.error, str(exc))

    def _check_bounds(self, first: int, end: int) -> Commands:
        if self.phase is not Phase.COPYING:
            return NOTHING
        nothing_copied = not self._copied and not len(self.window)
        if self.source.cursor.position < first and nothing_copied and (self._start.is_translated or not self.settled):
            return self.begin()
        if self.source.cursor.position < first and self._skip_deleted:
            return NOTHING if self._deciding or self.window.in_doubt else self._skip_to(first)
        self.source.check_bounds(first, end)
        return NOTHING

    # -- target ------------------------------------------------------------------------------------------------

    def append_answered(
        self, base: int, code: int, landed_at: int, message: str = "", repeated: bool = False
    ) -> Commands:
        """The target answered the append that expected `base`: `landed_at` counts when `code` is 0.

        `repeated`: the target had a batch of these sequences already. In mode translate that need not be this one.
        """
        if self.ended:
            self.window.outstanding -= 1
            return NOTHING
        try:
            if code == ErrorCode.MESSAGE_TOO_LARGE and self.phase is Phase.PADDING and self._padding_batch > 1:
                self._padding_batch //= 2  # max.message.bytes is small: try with less
                return self.target.unknown(error_name(code))
            if code:
                return self.target.refused(base, code, message)
            if repeated and landed_at == base and self.translates:
                return self.target.unknown("another appender is at work")
            commands = self.target.acknowledged(base, landed_at)
        except CannotMirror as exc:
            return self.fail(exc.error, str(exc))
        if not self.settled and not commands:
            commands = self._after_append()
        if self.translator is not None:
            self.translator.acknowledged(self.window.position)
            if (planned := self.translator.planned()) is not None:
                commands = (*commands, WriteBreakpoints(planned))
        return commands

    def append_unknown(self, message: str) -> Commands:
        """The connection broke, or no answer came: the outcome of one append is unknown."""
        if self.ended:
            self.window.outstanding -= 1
            return NOTHING
        return self.target.unknown(message)

    def _resolve_doubt(self, end: int, now: float) -> Commands:
        if self.target.log_end_low(end, now):
            return (ReadTargetLog(0.5),)
        self._check_tail()
        if self.translator is not None:  # another appender may be ahead, and beyond a hole
            if self._slow:
                self.window.clear()
            self.translator.begin_run()
            return self._decide(self.translator, end)
        self._contested_end = end
        return self._confirm(end)

    def _confirm(self, source_offset: int) -> Commands:
        if source_offset <= self.source.end or self.phase is Phase.PADDING:
            return self._accept_log_end()
        self.source.asked = True  # another appender is ahead; the source must be ahead of it
        return (ReadSourceLog(),)

    def _accept_log_end(self) -> Commands:
        end, self._contested_end = self._contested_end, None
        if end is None:
            return NOTHING
        if self.phase is Phase.PADDING:
            self.window.clear()
            self.window.resume(end)
            return self.begin()
        at = self._source_offset(end)
        if at > self.source.end:
            where = f"{end}" if at == end else f"{end} (source offset {at})"
            raise CannotMirror(
                MirrorError.TARGET_DIVERGED,
                f"the target's log ends at {where}, beyond the source's end {self.source.end}: "
                "something other than the mirror writes to the target partition",
            )
        self.target.resume(end)
        if self._slow and self.translator is not None:
            self.window.source_position = at
            self.translator.go_on(at)
            if at > self.source.cursor.position:
                self.source.cursor.skip_to(at)
            else:
                self.source.cursor.go_on(at)
        else:
            self.source.cursor.skip_to(end)
        return NOTHING if self.settled else self._after_append()

    def _after_append(self) -> Commands:
        """Not settled yet: is the padding done, or enough copied to trim the log?"""
        position, start = self.window.position, self._start
        if self.phase is Phase.PADDING:
            if position >= start.pad_to:
                return self.begin()
            self._queue_padding()
        elif self.phase is Phase.COPYING and position >= start.source_start:
            return self._delete_records() if self.target_start < start.source_start else self._settle()
        return NOTHING

    def _queue_padding(self) -> None:
        window, pad_to = self.window, self._start.pad_to
        while len(window) < MAX_IN_FLIGHT:
            base = window.newest.following if window.newest else window.position
            if base >= pad_to:
                return
            window.push(Pending(base, min(base + self._padding_batch, pad_to), None, self._wall_ms()))

    def take(self) -> Append | None:
        """The next batch to produce, if it is the time."""
        return self.window.take()

    # -- end ---------------------------------------------------------------------------------------------------

    def fail(self, error: MirrorError, message: str) -> Commands:
        """Stop for good."""
        if self.ended:
            return NOTHING
        self.phase = Phase.FAILED
        self.target.last_error = message
        self.window.clear()
        return (Fail(error, message),)

    def stop(self) -> None:
        """Hand out nothing more; what is in flight is still to be answered (`window.outstanding`)."""
        if not self.ended:
            self.phase = Phase.STOPPED
        self.window.clear()

    def _guarded(self, step: Callable[[], Commands]) -> Commands:
        if self.ended:
            return NOTHING
        try:
            return step()
        except CannotMirror as exc:
            return self.fail(exc.error, str(exc))
