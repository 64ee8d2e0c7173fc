"""The state of one partition's mirror, on which all its decisions rest. Theory: `mirror/partition/rules/partition.py`.

Padding is here, too: null records fill the target up to the source's first offset, so that offsets are equal from there
on.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from gateway.mirror.offset_map.rules.ledger import OffsetLedger
from gateway.mirror.partition.rules.append_window import MAX_IN_FLIGHT, AppendWindow, Pending
from gateway.mirror.partition.rules.commands import Commands, ReadTargetLog
from gateway.mirror.partition.rules.log_tail import CannotMirror, LogTail
from gateway.mirror.partition.rules.schema_ids import IdRewriter
from gateway.mirror.partition.rules.source_side import SourceSide
from gateway.mirror.partition.rules.target_side import TargetSide
from gateway.mirror.partition.rules.translator import Translator
from gateway.state.records import MirrorError, PartitionStart

PADDING_BATCH: Final = 1_000_000
"""Records in one batch of padding, unless it exceeds the target's max.message.bytes."""


class Padding:
    """Queues the padding of one partition. `wall_ms`: the time of day in milliseconds, for the timestamps."""

    __slots__ = ("_batch", "_wall_ms", "_window")

    def __init__(self, window: AppendWindow, wall_ms: Callable[[], int]) -> None:
        self._window = window
        self._wall_ms = wall_ms
        self._batch = PADDING_BATCH

    def queue(self, pad_to: int) -> None:
        """Queue as many batches as may be in flight, up to the target offset `pad_to`."""
        window = self._window
        while len(window) < MAX_IN_FLIGHT:
            base = window.newest.following if window.newest else window.position
            if base >= pad_to:
                return
            window.push(Pending(base, min(base + self._batch, pad_to), None, self._wall_ms()))

    def halve(self) -> bool:
        """Use batches of half the size from now on; False when they have one record already."""
        if self._batch == 1:
            return False
        self._batch //= 2
        return True


class PartitionPhase(StrEnum):
    """The phase of a partition's mirror. PAUSED only appears in the status of a mirror that is not run."""

    STARTING = "starting"
    PADDING = "padding"
    COPYING = "copying"
    PAUSED = "paused"
    FAILED = "failed"
    STOPPED = "stopped"


class PartitionState:
    """The base of `PartitionMirror`; the rarer steps (`start.py`, `unknown_outcome.py`, `offset_gaps.py`) work on it.

    Args:
        start: where the mirror begins.
        producer_id: writes the target partition.
        wall_ms: the time of day in milliseconds, for the timestamps of padding.
        handed_over_at: the target's log end when this mirror began; records below may be other writers'.
        ledger: of the partition's offset map; None: offsets must be equal, and a log that does not allow that fails.
        compacted: records of the source may vanish while they are copied.
        skip_deleted: skip records that the source deleted before they were copied, and report the loss. Needs a ledger,
            since they leave an offset gap.
        rewriter: rewrites schema ids in copied records; None: batches are copied as bytes.

    Attributes:
        window, source, target, padding, translator: the partition's queue, its two sides, and so on.
        readable: clients may read the partition.
        target_start: the target's log start as last seen.
        target_known: while starting: the target's log end was read.
        tail: the target's last batch as last seen; None: its log is empty.
        source_bounds: the source's log start and end as last read; None: not read since the start.
        deleting: a DeleteRecords is in flight.
        deciding: the ledger is being decided up to the target's log end.
        contested_end: a target log end that the source must confirm.
    """

    __slots__ = (
        "contested_end",
        "deciding",
        "deleting",
        "handed_over_at",
        "padding",
        "phase",
        "producer_id",
        "readable",
        "rewriter",
        "skip_deleted",
        "source",
        "source_bounds",
        "start",
        "tail",
        "target",
        "target_known",
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
        rewriter: IdRewriter | None = None,
    ) -> None:
        self.start = start
        self.handed_over_at = handed_over_at
        self.producer_id = producer_id
        self.window = AppendWindow(producer_id)
        self.source = SourceSide(self.window)
        self.target = TargetSide(self.window)
        self.padding = Padding(self.window, wall_ms)
        self.translator = None if ledger is None else Translator(ledger, self.window, producer_id)
        self.source.cursor.may_slow_down = self.translator
        self.source.cursor.rewriter = self.rewriter = rewriter
        self.skip(deleted=skip_deleted)
        if compacted:
            self.window.most_in_flight = 1
        self.phase = PartitionPhase.STARTING
        self.readable = False
        self.target_start = 0
        self.target_known = False
        self.tail: LogTail | None = None
        self.source_bounds: tuple[int, int] | None = None
        self.deleting = False
        self.deciding = False
        self.contested_end: int | None = None

    def skip(self, *, deleted: bool) -> None:
        """Set whether to skip records that the source deleted before they were copied; without an offset map: never."""
        self.skip_deleted = deleted and self.translator is not None

    @property
    def ended(self) -> bool:
        """Failed or stopped."""
        return self.phase is PartitionPhase.FAILED or self.phase is PartitionPhase.STOPPED

    @property
    def copying(self) -> bool:
        """In the phase COPYING, which fetches."""
        return self.phase is PartitionPhase.COPYING

    @property
    def mirrored_to(self) -> int:
        """The next source offset to mirror: everything below is on the target, or is not to be copied."""
        return self.window.source_position

    @property
    def translates(self) -> bool:
        """Mode translate: offsets are not equal, or need not be."""
        return self.translator is not None and (self.start.is_translated or self.translator.ledger.used)

    @property
    def slow(self) -> bool:
        """Batches go through the slow path (`mirror/partition/rules/translator.py`)."""
        return self.translates or self.source.cursor.slow_path is not None

    @property
    def copied(self) -> bool:
        """The target has records that this mirror appended."""
        if self.start.is_translated:
            return self.window.position > self.handed_over_at
        return self.window.position > self.start.pad_to

    @property
    def last_error(self) -> str:
        """What is being retried now; "" when nothing is."""
        if self.source.is_behind:  # the target's error before only led to this one
            return self.source.last_error
        return self.target.last_error or self.source.last_error

    def begin(self) -> Commands:
        """Start, or decide again after padding: read both logs.

        First the target's, then the source's: another appender may be at work, and the source must not look
        shorter than its copy.
        """
        self.phase = PartitionPhase.STARTING
        self.target_known = False
        self.source_bounds = None
        self.source.asked = True
        self.deciding = False
        if self.translator is not None:
            self.translator.begin_run()
        return (ReadTargetLog(),)

    def source_offset(self, end: int) -> int:
        """Where reading resumes when the target's log ends at `end`. Raises CannotMirror when the map does not know."""
        if not self.slow or self.translator is None:
            return end
        try:
            return self.translator.ledger.position(end)
        except LookupError as exc:
            raise CannotMirror(MirrorError.TARGET_DIVERGED, f"the target's log ends at {end}, but {exc}") from None

    def check_tail(self) -> None:
        """Raises CannotMirror when the target's last batch should be this mirror's and is not."""
        if self.tail is not None and self.tail.following > self.handed_over_at:
            self.tail.check_ours(self.producer_id)
