"""How one partition's mirror resumes after an append of unknown outcome.

All answers are in (`AppendWindow.wants_log_end`), and the target's log end was read. If it is ahead of us, another
appender is at work, and the source has the last word: a log end beyond the source's is contested until the source's is
read again, and a divergence if it is still beyond after other brokers were asked who leads (`SourceBehind`). With a
ledger, the map is first decided up to that log end (`decide`), since the other appender may be ahead beyond an offset
gap.
"""

from __future__ import annotations

from gateway.mirror.partition.rules.commands import NOTHING, Commands, ReadSourceLog, ReadTargetLog
from gateway.mirror.partition.rules.source_side import SourceBehind
from gateway.mirror.partition.rules.start import decide, go_on_to_readable
from gateway.mirror.partition.rules.state import PartitionPhase, PartitionState
from gateway.mirror.partition.rules.target_side import LOOK_AGAIN_S
from gateway.mirror.partition.rules.translator import Translator
from gateway.state.records import MirrorError


def is_outcome_open(state: PartitionState) -> bool:
    """The target's log end is awaited, and not being judged yet."""
    return state.window.wants_log_end and state.contested_end is None and not state.deciding


def resolve_outcome(state: PartitionState, end: int, now: float) -> Commands:
    """The target's log ends at `end`. Raises CannotMirror when that is a divergence."""
    known = state.window.position
    if state.translates and state.translator is not None:  # another appender may have extended the log
        known = max(known, state.translator.ledger.reached)
    if state.target.is_low(end, known, now):
        if not state.target.is_low_for_good(now):
            return (ReadTargetLog(LOOK_AGAIN_S),)
        if state.translates:  # the start reads the log end once more, and has the map cut
            state.window.clear()
            state.target.recovered()
            return state.begin()
        state.target.lost_appends()
        return state.begin()
    state.check_tail()
    translator = state.translator
    if translator is None:
        return _contest(state, end)
    if state.slow:
        state.window.clear()
    translator.begin_run()
    return decide(state, translator, end)


def map_known_for_outcome(state: PartitionState, translator: Translator, end: int) -> Commands:
    """The ledger is decided up to the target's log end `end`. Raises CannotMirror when that is a divergence."""
    if state.slow:
        state.window.clear()
        state.source.cursor.slow_path = translator
    if state.translates and translator.ledger.reached > end:
        return (ReadTargetLog(LOOK_AGAIN_S),)
    return _contest(state, end)


def _contest(state: PartitionState, end: int) -> Commands:
    state.contested_end = end
    if state.source_offset(end) <= state.source.end or state.phase is PartitionPhase.PADDING:
        return accept_end(state)
    state.source.asked = True  # another appender is ahead; the source must be ahead of it
    return (ReadSourceLog(),)


def accept_end(state: PartitionState) -> Commands:
    """The source's end is fresh: resume from the contested end, if there is one.

    Raises:
        SourceBehind: the contested end is beyond the source's end. It stays contested.
        CannotMirror: it lies inside a queued batch.
    """
    end = state.contested_end
    if end is None:
        return NOTHING
    if state.phase is PartitionPhase.PADDING:
        state.contested_end = None
        state.window.clear()
        state.window.resume(end)
        return state.begin()
    at = state.source_offset(end)
    if at > state.source.end:
        where = f"{end}" if at == end else f"{end} (source offset {at})"
        raise SourceBehind(
            MirrorError.TARGET_DIVERGED,
            f"the target's log ends at {where}, beyond the source's end {state.source.end}: "
            "something other than the mirror writes to the target partition",
        )
    state.contested_end = None
    state.target.resume(end)
    _read_on(state, at)
    return NOTHING if state.readable else go_on_to_readable(state)


def _read_on(state: PartitionState, at: int) -> None:
    """Resume reading at the source offset `at`. Batches that another appender copied only feed the producer table."""
    cursor = state.source.cursor
    if state.slow and state.translator is not None:
        state.window.source_position = at
        state.translator.go_on(at)
        if at <= cursor.position:
            cursor.go_on(at)
            return
    cursor.skip_to(at)
