"""Source offsets with nothing to copy, from the beginning or by now: the mirror skips them, where it may.

Equal offsets allow no gap, so each skip needs the slow path and a breakpoint.
"""

from __future__ import annotations

from gateway.mirror.partition.rules.commands import NOTHING, Commands, RecordsLost, WriteBreakpoints
from gateway.mirror.partition.rules.state import PartitionPhase, PartitionState
from gateway.mirror.partition.rules.translator import Translator
from protocol.batch.reencode import Skip


def position_refused(state: PartitionState, first: int, end: int) -> Commands:
    """The source refused our position; its log spans `first` to `end`. Raises CannotMirror if that is final.

    Starts again if nothing was copied yet, and skips deleted records if the mirror may.
    """
    if state.phase is not PartitionPhase.COPYING:
        return NOTHING
    nothing_copied = not state.copied and not len(state.window)
    deleted = state.source.cursor.position < first
    if deleted and nothing_copied and (state.start.is_translated or not state.readable):
        return state.begin()
    if deleted and state.skip_deleted:
        return NOTHING if state.deciding or state.window.outcome_unknown else skip_to(state, first)
    state.source.check_bounds(first, end)
    return NOTHING


def skip_to(state: PartitionState, first: int) -> Commands:
    """Resume reading at `first`; the offsets below become an offset gap. Does nothing if the mirror may not skip."""
    translator = state.translator
    if translator is None or not state.skip_deleted:
        return NOTHING
    lost_from = state.source.cursor.position
    why = f"source offsets {lost_from}..{first - 1} were deleted on the source before they were mirrored"
    return (RecordsLost(lost_from, first), *_skip(state, translator, first, why))


def nothing_up_to(state: PartitionState, offset: int, bound: int) -> Commands:
    """A `LookAhead`, perhaps long ago, found no batch of the source from `offset` up to its end `bound`."""
    translator = state.translator
    busy = (
        state.phase is not PartitionPhase.COPYING or state.deciding or state.window.outcome_unknown
    )  # a contested end implies an unknown outcome
    if busy or translator is None or state.source.cursor.fetch_offset != offset:
        return NOTHING
    if state.source.cursor.position >= bound:
        state.source.cursor.nothing_below()
        return NOTHING
    return _skip(state, translator, bound)


def _skip(state: PartitionState, translator: Translator, following: int, why: str = "") -> Commands:
    cursor = state.source.cursor
    if cursor.slow_path is None:
        cursor.slow_path = translator
        translator.go_on(cursor.position)
    translator.reason = translator.reason or why
    translator.put(Skip(following))
    cursor.go_on(following)
    planned = translator.planned()
    return NOTHING if planned is None else (WriteBreakpoints(planned),)
