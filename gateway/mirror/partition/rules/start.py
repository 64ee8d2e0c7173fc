"""Where one partition's mirror begins: from both logs to the first batch, and until the partition is readable.

There is no checkpoint: the target's log end, compared with the source's log, says everything. Below
`PartitionStart.pad_to` the target has padding; below `source_start` it is to be trimmed.
"""

from __future__ import annotations

from gateway.mirror.offset_map.rules.offset_map import TranslationRule
from gateway.mirror.partition.rules.commands import (
    NOTHING,
    Commands,
    DecideBreakpoints,
    DeleteRecords,
    PlanStart,
    Readable,
    ReadSourceLog,
    ReadTargetLog,
    RecordsLost,
)
from gateway.mirror.partition.rules.log_tail import CannotMirror, CopiedTail
from gateway.mirror.partition.rules.offset_gaps import skip_to
from gateway.mirror.partition.rules.source_side import SourceBehind, records_lost
from gateway.mirror.partition.rules.state import PartitionPhase, PartitionState
from gateway.mirror.partition.rules.target_side import LOOK_AGAIN_S
from gateway.mirror.partition.rules.translator import Translator
from gateway.state.records import MirrorError


def target_log_known(state: PartitionState, end: int, now: float) -> Commands:
    """The target's log ends at `end`. Raises CannotMirror when that cannot be this mirror's log.

    In mode translate the map must not be ahead of the log: its breakpoints would belong to other records. Breakpoints
    of records that the target has lost are cut.
    """
    lost = False
    if state.translates and state.translator is not None:
        lost = state.target.is_low(end, state.translator.ledger.reached, now)
        if lost and not state.target.is_low_for_good(now):
            return (ReadTargetLog(LOOK_AGAIN_S),)
    if end < state.handed_over_at:
        raise CannotMirror(
            MirrorError.TARGET_DIVERGED,
            f"the target's log ends at {end}; it ended at {state.handed_over_at} when this mirror began",
        )
    state.check_tail()
    state.target_known = True
    state.target.last_error = ""
    state.window.resume(end)
    if lost:
        state.target.lost_appends()
    return (ReadSourceLog(),) if state.translator is None else decide(state, state.translator, end, lost=lost)


def decide(state: PartitionState, translator: Translator, end: int, *, lost: bool = False) -> Commands:
    """Have the ledger decide which of its breakpoints hold, given that the target's log ends at `end`."""
    state.deciding = True
    return (DecideBreakpoints(end, translator.run, lost),)


def map_known_at_start(state: PartitionState, translator: Translator, end: int) -> Commands:
    """The ledger is decided up to the target's log end `end`. If it knows of a longer log, the end is read again."""
    if state.translates and translator.ledger.reached > end:
        state.target_known = False
        return (ReadTargetLog(LOOK_AGAIN_S),)
    state.source.cursor.slow_path = translator if state.translates else None
    return (ReadSourceLog(),)


def place(state: PartitionState) -> Commands:
    """The target's log is known, and the source's too unless it is out of reach: decide where to begin.

    Raises:
        SourceBehind: the source's log ends below what is on the target.
        CannotMirror: the two logs do not belong together, or the source has lost records.
    """
    if state.translates and state.translator is not None:
        return _place_translated(state, state.translator)
    position, start = state.window.position, state.start
    if state.source_bounds is not None:
        first, end = state.source_bounds
        if position <= start.pad_to and first > start.source_start:  # nothing was copied, so the start may still move
            return (PlanStart(),)
        _check_source(state, first, end)
    if position < start.pad_to:
        state.phase = PartitionPhase.PADDING
        state.padding.queue(start.pad_to)
        return NOTHING
    if state.target_start < start.source_start <= position:
        return _trim(state)
    state.phase = PartitionPhase.COPYING
    first = state.source_bounds[0] if state.source_bounds else max(position, start.source_start)
    tail = state.tail
    if tail is None or position <= max(start.pad_to, state.handed_over_at):  # not a copy: padding, or another writer's
        state.source.cursor.start(position, first)
    else:
        copied = CopiedTail(tail.base, tail.following - 1, tail.max_timestamp, is_equal=True)
        state.source.cursor.start(position, first, copied)
    lost = skip_to(state, first) if position < first else NOTHING
    return (*lost, *make_readable(state)) if position >= start.source_start else lost


def _check_source(state: PartitionState, first: int, end: int) -> None:
    position, pad_to = state.window.position, state.start.pad_to
    if max(position, pad_to) > end:
        error = MirrorError.TARGET_DIVERGED if position > end else MirrorError.UNEXPECTED_TRUNCATION
        raise _ahead(error, end, max(position, pad_to))
    if pad_to < position < first and not state.skip_deleted:
        raise records_lost(position, first)


def _place_translated(state: PartitionState, translator: Translator) -> Commands:
    window, start = state.window, state.start
    at = state.source_offset(window.position)
    first = at
    if state.source_bounds is not None:
        first, end = state.source_bounds
        if at > end:
            raise _ahead(MirrorError.UNEXPECTED_TRUNCATION, end, at)
        if at < first and state.copied and not state.skip_deleted:
            raise records_lost(at, first)
    lost: Commands = (RecordsLost(at, first),) if at < first and state.copied else NOTHING
    at = max(at, first)
    window.source_position = at
    translator.go_on(at)
    state.phase = PartitionPhase.COPYING
    state.source.cursor.start(at, first, _copied_tail(state, translator))
    if not start.is_translated and state.target_start < start.source_start <= window.position:
        return (*lost, *_trim(state))
    ready = start.is_translated or window.position >= start.source_start
    return (*lost, *make_readable(state)) if ready else lost


def _copied_tail(state: PartitionState, translator: Translator) -> CopiedTail | None:
    """The target's last batch at its source offsets by the map; None when it is not this mirror's copy."""
    tail = state.tail
    if tail is None or not state.copied or tail.base < max(state.handed_over_at, state.start.pad_to):
        return None
    base, last = (translator.ledger.map.to_source(at) for at in (tail.base, tail.following - 1))
    if (base.rule, last.rule) != (TranslationRule.EXACT, TranslationRule.EXACT):
        return None
    return CopiedTail(base.offset, last.offset, tail.max_timestamp)


def _ahead(error: MirrorError, end: int, at: int) -> SourceBehind:
    return SourceBehind(
        error,
        f"the source's log ends at {end}, but its mirror stands at {at}: "
        "the source was truncated, or something else wrote to the target partition",
    )


def go_on_to_readable(state: PartitionState) -> Commands:
    """More records are on the target, and it is not readable yet: check whether it is padded, or can be trimmed now."""
    position, start = state.window.position, state.start
    if state.phase is PartitionPhase.PADDING:
        if position >= start.pad_to:
            return state.begin()
        state.padding.queue(start.pad_to)
    elif state.phase is PartitionPhase.COPYING and position >= start.source_start:
        return _trim(state) if state.target_start < start.source_start else make_readable(state)
    return NOTHING


def _trim(state: PartitionState) -> Commands:
    if state.deleting:
        return NOTHING
    state.deleting = True
    return (DeleteRecords(state.start.source_start),)


def trimmed(state: PartitionState) -> Commands:
    """DeleteRecords has moved the target's log start to `source_start`. Raises as `place` does."""
    return place(state) if state.phase is PartitionPhase.STARTING else make_readable(state)


def make_readable(state: PartitionState) -> Commands:
    """Declare the partition readable, once."""
    if state.readable:
        return NOTHING
    state.readable = True
    return (Readable(),)
