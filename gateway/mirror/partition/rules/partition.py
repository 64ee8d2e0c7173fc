"""One partition's mirror, without I/O: answers of the source and the target in, commands out.

Theory of operation
-------------------
The target partition is written under one producer id, epoch 0, and every batch carries its own target offset
(mod 2^31) as sequence number. So the target's broker refuses anything that is not the exact continuation of
its log, and the mirror need not remember anything across a crash: its position is the target's log end.

Phases::

    STARTING ──► PADDING ──► STARTING          (both logs are read again when the padding is done)
        └──────► COPYING
    any ──► FAILED (for good), any ──► STOPPED

STARTING reads both logs and decides (`start.py`). PADDING appends null records up to `PartitionStart.pad_to`
(`state.py`). COPYING queues fetched batches (`SourceSide`) and hands them out in order (`TargetSide`); a batch needs
only `fetched`, `take` and `append_answered`. A partition is *readable* once it is padded and the target's log start has
been moved up to `source_start`; from then on its offsets are a promise, so a source that lost records is an error and
no reason to pad again.

The target's log end tells the outcome of an append whose answer was lost (`unknown_outcome.py`). The mirror skips
offsets at which the source has nothing to copy, if it may (`offset_gaps.py`). All share a `PartitionState`.

`TargetSide` works with target offsets and `SourceSide` with source offsets: the same numbers in mode preserve. In mode
translate an offset map relates them (`mirror/partition/rules/translator.py`): the source position is what the map says
for the target's log end, so it is not stored either. Such a partition is not padded, and is readable immediately. A
partition in mode preserve that has a ledger switches to the slow path at the first batch that needs it, and translates
from the first breakpoint.

All inputs return the commands to execute (`commands.py`). `now` is a monotonic clock in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gateway.mirror.partition.rules.append_window import Append
from gateway.mirror.partition.rules.commands import (
    NOTHING,
    Commands,
    DeleteRecords,
    Fail,
    ReadSourceLog,
    WorkBeside,
    WriteBreakpoints,
)
from gateway.mirror.partition.rules.log_tail import CannotMirror, LogTail
from gateway.mirror.partition.rules.offset_gaps import nothing_up_to, position_refused
from gateway.mirror.partition.rules.opened import Opened
from gateway.mirror.partition.rules.source_side import SourceBehind
from gateway.mirror.partition.rules.start import go_on_to_readable, map_known_at_start, place, target_log_known, trimmed
from gateway.mirror.partition.rules.state import PartitionPhase, PartitionState
from gateway.mirror.partition.rules.translator import PlannedBreakpoints
from gateway.mirror.partition.rules.unknown_outcome import (
    accept_end,
    is_outcome_open,
    map_known_for_outcome,
    resolve_outcome,
)
from gateway.state.records import MirrorError, PartitionStart
from protocol.errors import ErrorCode, error_name

_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
"""The target's errors for a batch beyond `max.message.bytes` or `segment.bytes`."""


class PartitionMirror(PartitionState):
    """See the module docstring; arguments and attributes: `PartitionState`. The first input is `begin`."""

    __slots__ = ()

    # -- both logs ---------------------------------------------------------------------------------------------

    def target_log(self, start: int, end: int, tail: LogTail | None, now: float) -> Commands:
        """The target's log start and end from ListOffsets, and its last batch (None: the log is empty)."""
        self.target_start = start
        self.tail = tail
        if self.phase is PartitionPhase.STARTING and not self.target_known:
            return self._guarded(lambda: target_log_known(self, end, now))
        if is_outcome_open(self):
            return self._guarded(lambda: resolve_outcome(self, end, now))
        return NOTHING

    def breakpoints_decided(self, end: int, run: int) -> Commands:
        """The ledger knows all breakpoints below the target's log end `end`."""
        translator = self.translator
        if self.ended or not self.deciding or translator is None or run != translator.run:
            return NOTHING
        self.deciding = False
        self.target.last_error = ""
        if self.phase is not PartitionPhase.STARTING:
            return self._guarded(lambda: map_known_for_outcome(self, translator, end))
        return map_known_at_start(self, translator, end)

    def breakpoints_written(self, planned: PlannedBreakpoints) -> Commands:
        """The breakpoints are durable: the batches that waited for them may be appended."""
        if self.translator is not None and not self.ended:
            self.translator.durable(planned.up_to, planned.run)
        return NOTHING

    def looked_ahead(self, offset: int, bound: int, *, following: int | None) -> Commands:
        """The base offset of the source's next batch at or beyond `offset`; None when the source sent none.

        Only the next batch proves that there are no records before it. An empty answer proves nothing: a broker that
        cannot read its tiered storage in time sends one too, and to take it for an offset gap would lose records.
        """
        if following is None:
            self.source.unproven(bound)
            return NOTHING
        return nothing_up_to(self, offset, bound) if following >= bound else NOTHING

    def target_log_unknown(self, message: str) -> Commands:
        """The target's log could not be read."""
        return NOTHING if self.ended else self.target.log_unknown(message)

    def source_log(self, start: int, end: int, now: float, recent: int | None = None) -> Commands:
        """The source's log start and high watermark from ListOffsets; `recent`: see `FetchCursor`."""
        self.source.asked = False
        if recent is not None:
            self.source.cursor.recent = recent
        self.source_bounds = (start, end)
        self.source.end = max(self.source.end, end)
        if self.phase is PartitionPhase.STARTING:
            return self._guarded(lambda: self._unless_behind(lambda: place(self), now))
        if self.contested_end is not None:
            return self._guarded(lambda: self._unless_behind(lambda: accept_end(self), now))
        return self._guarded(lambda: self._unless_behind(lambda: position_refused(self, start, end), now))

    def _unless_behind(self, step: Callable[[], Commands], now: float) -> Commands:
        try:
            commands = step()
        except SourceBehind as found:
            self.source_bounds = None  # as good as not read
            return self.source.behind(found, now)
        self.source.not_behind()
        return commands

    def source_log_unknown(self, message: str, now: float) -> Commands:
        """The source's log could not be read."""
        self.source.asked = False
        if self.ended:
            return NOTHING
        self.source.back_off(message, now)
        if self.phase is PartitionPhase.STARTING:  # the records on the target can be served without the source
            return self._guarded(lambda: place(self))
        if self.contested_end is not None:
            self.source.asked = True
            return (ReadSourceLog(1.0),)
        return NOTHING

    def start_planned(self, start: PartitionStart) -> Commands:
        """The source lost records before any was copied: this is the new start."""
        if self.phase is not PartitionPhase.STARTING:
            return NOTHING
        self.start = start
        return self.begin()

    def records_deleted(self) -> Commands:
        """DeleteRecords has moved the target's log start to `source_start`."""
        self.deleting = False
        self.target_start = max(self.target_start, self.start.source_start)
        return self._guarded(lambda: trimmed(self))

    def delete_failed(self, message: str) -> Commands:
        """DeleteRecords failed: try again."""
        if self.ended:
            return NOTHING
        self.target.last_error = message
        return (DeleteRecords(self.start.source_start, 1.0),)

    # -- source ------------------------------------------------------------------------------------------------

    def wants_fetch(self, now: float) -> bool:
        """True when the next fetch should include the partition, from `source.cursor.fetch_offset`."""
        return self.phase is PartitionPhase.COPYING and not self._is_lost and self.source.ready(now)

    @property
    def _is_lost(self) -> bool:
        """The offset to read next is unknown until the offset map or the source has answered."""
        return self.translator is not None and (self.deciding or (self.contested_end is not None and self.slow))

    def fetched(
        self,
        records: memoryview | None,
        high_watermark: int,
        now: float,
        asked: int = -1,
        stable: int = -1,
        aborted: Sequence[tuple[int, int]] = (),
        log_start: int = -1,
    ) -> Commands:
        """A fetch answer without error.

        Args:
            asked: the fetch offset of its request; nothing else distinguishes a late answer from an offset gap.
            stable: the last stable offset, -1 if absent.
            aborted: the aborted transactions in it, (producer id, first offset).
            log_start: the source's log start, -1 if absent.
        """
        if self.phase is not PartitionPhase.COPYING:
            return NOTHING
        if asked >= 0 and asked != self.source.cursor.fetch_offset:  # an answer to an older question
            return NOTHING
        if self._is_lost:
            return NOTHING  # the position is not known yet
        return self._read(lambda: self.source.fetched(records, high_watermark, now, stable, aborted, log_start))

    def worked(self, command: WorkBeside, opened: Opened, now: float) -> Commands:
        """A thread has opened the rest of a fetch answer."""
        if self.phase is not PartitionPhase.COPYING or self._is_lost:
            self.source.working = False
            return NOTHING
        return self._read(lambda: self.source.worked(command, opened, now))

    def _read(self, step: Callable[[], Commands]) -> Commands:
        translator = self.translator
        try:
            commands = step()
        except CannotMirror as exc:
            return self.fail(exc.error, str(exc))
        if translator is not None and (planned := translator.planned()) is not None:
            return (*commands, WriteBreakpoints(planned))
        return commands

    def look_at_ids(self, now: float) -> Commands:
        """Once a second: resume when the id map has the missing ids, fail when it has lacked them for too long."""
        rewriter = self.rewriter
        if rewriter is None or rewriter.waiting is None or self.phase is not PartitionPhase.COPYING:
            return NOTHING
        try:
            rewriter.look(now)
        except CannotMirror as exc:
            return self.fail(exc.error, str(exc))
        return NOTHING

    def fetch_failed(self, code: int, now: float) -> Commands:
        """A fetch answer with an error for this partition."""
        if self.phase is not PartitionPhase.COPYING:
            return NOTHING
        return self._guarded(lambda: self.source.failed(code, now))

    def fetch_diverged(self, epoch: int, end_offset: int) -> Commands:
        """A fetch answer with a diverging epoch (KIP-595)."""
        if self.phase is not PartitionPhase.COPYING:
            return NOTHING
        exc = self.source.diverged(epoch, end_offset)
        return self.fail(exc.error, str(exc))

    # -- target ------------------------------------------------------------------------------------------------

    def append_answered(
        self, base: int, code: int, landed_at: int, message: str = "", repeated: bool = False
    ) -> Commands:
        """The target answered the append that expected `base`; `landed_at` is valid when `code` is 0.

        `repeated`: the target already had a batch with these sequences. In mode translate that may be another batch.
        """
        if self.ended:
            self.window.outstanding -= 1
            return NOTHING
        try:
            if code == ErrorCode.MESSAGE_TOO_LARGE and self.phase is PartitionPhase.PADDING and self.padding.halve():
                return self.target.unknown(error_name(code))
            if code in _TOO_LARGE and self.window.merge_less(base):
                return self.target.unknown(error_name(code))
            if code:
                return self.target.refused(base, code, message)
            if repeated and landed_at == base and self.translates:
                return self.target.unknown("another appender is at work")
            commands = self.target.acknowledged(base, landed_at)
        except CannotMirror as exc:
            return self.fail(exc.error, str(exc))
        if not self.readable and not commands:
            commands = go_on_to_readable(self)
        if self.translator is not None:
            self.translator.acknowledged(self.window.position)
            if (planned := self.translator.planned()) is not None:
                commands = (*commands, WriteBreakpoints(planned))
        return commands

    def append_unknown(self, message: str) -> Commands:
        """The outcome of one append is unknown: the connection broke, or no answer came."""
        if self.ended:
            self.window.outstanding -= 1
            return NOTHING
        return self.target.unknown(message)

    def take(self) -> Append | None:
        """The next batch to produce; None while there is none to send."""
        return self.window.take()

    # -- end ---------------------------------------------------------------------------------------------------

    def fail(self, error: MirrorError, message: str) -> Commands:
        """Stop for good."""
        if self.ended:
            return NOTHING
        self.phase = PartitionPhase.FAILED
        self.target.last_error = message
        self.window.clear()
        return (Fail(error, message),)

    def stop(self) -> None:
        """Stop handing out batches. Appends in flight still await their answers (`window.outstanding`)."""
        if not self.ended:
            self.phase = PartitionPhase.STOPPED
        self.window.clear()

    def _guarded(self, step: Callable[[], Commands]) -> Commands:
        if self.ended:
            return NOTHING
        try:
            return step()
        except CannotMirror as exc:
            return self.fail(exc.error, str(exc))
