"""What the target's answers mean for one partition: acknowledged, of unknown outcome, refused, or overtaken.

After an unknown outcome: wait until every append in flight is answered, read the target's log end, resume from there. A
log end ahead of us is another appender's work, which is fine as long as the source has the records: it appends the same
batches. A log end beyond the source is a divergence. A log end below what was acknowledged means that the target lost
appends (by an unclean election, or because one replica acknowledged them): they are copied again from the source.
"""

from __future__ import annotations

from typing import Final

from gateway.kafka.rules.error_codes import APPEND_ACTIONS, AppendAction
from gateway.mirror.partition.rules.append_window import AppendWindow
from gateway.mirror.partition.rules.commands import NOTHING, Commands, ReadTargetLog
from gateway.mirror.partition.rules.log_tail import CannotMirror
from gateway.state.records import MirrorError
from protocol.errors import error_name

SLOW_RETRY_S: Final = 10.0
LOW_LOG_END_S: Final = 5.0
"""A log end below what was acknowledged must last this long: a deposed leader may report one until another broker is
asked who leads. Each repeated read asks another broker (`TopicMirror.read_target_log`), and the newest leader epoch
counts: so these are some ten questions, and the answer is believed only if the cluster has no other leader. Before that
nothing is cut from an offset map."""

LOOK_AGAIN_S: Final = 0.5
"""The time between two reads of such a log end."""

RETRY_S: Final = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)


class TargetSide:
    """Attributes: `last_error` is what is being retried; "" once an append has succeeded again."""

    __slots__ = ("_delay_s", "_low_since", "_unknown_outcomes", "last_error", "window")

    def __init__(self, window: AppendWindow) -> None:
        self.window = window
        self.last_error = ""
        self._unknown_outcomes = 0
        self._delay_s = 0.0
        self._low_since: float | None = None

    def acknowledged(self, base: int, landed_at: int) -> Commands:
        """An append succeeded. Raises CannotMirror when it landed at another offset than `base`."""
        window = self.window
        window.appended(base, landed_at)
        if window.outcome_unknown:
            return self._read_if_quiet()
        if self._unknown_outcomes:
            self.recovered()
        return NOTHING

    def recovered(self) -> None:
        """Nothing is being retried any more."""
        self._unknown_outcomes = 0
        self.last_error = ""

    def refused(self, base: int, code: int, message: str) -> Commands:
        """An append got an error code. Raises CannotMirror if the target will never accept it."""
        action = APPEND_ACTIONS.get(code, AppendAction.OUTCOME_UNKNOWN)
        what = f"append at target offset {base}: {error_name(code)}" + (f" ({message})" if message else "")
        if action is AppendAction.REJECTED:
            self.window.outstanding -= 1
            raise CannotMirror(MirrorError.TARGET_REJECTED, what)
        return self.unknown(what, slow=action is AppendAction.SLOW)

    def unknown(self, message: str, *, slow: bool = False) -> Commands:
        """One append failed, or its outcome is unknown."""
        if not self.window.outcome_unknown:  # errors after the first one follow from it
            self._note(message)
        if slow:
            self._delay_s = SLOW_RETRY_S
        self.window.outcome_is_unknown()
        return self._read_if_quiet()

    def resume(self, end: int) -> None:
        """Resume from the target's log end. Raises CannotMirror when that lies inside a batch."""
        self.window.resume(end)
        if not len(self.window):  # nothing is left to try again
            self.recovered()

    def log_unknown(self, message: str) -> Commands:
        """The target's log could not be read."""
        self._note(message)
        return (ReadTargetLog(max(self._delay_s, RETRY_S[1])),)

    def is_low(self, end: int, known: int, now: float) -> bool:
        """True when the log ends below `known`, what was acknowledged; then it must be read again."""
        if end >= known:
            self._low_since = None
            return False
        if self._low_since is None:
            self._low_since = now
        return True

    def is_low_for_good(self, now: float) -> bool:
        """True when the log end has been low for `LOW_LOG_END_S`: the target has lost acknowledged records."""
        return self._low_since is not None and now - self._low_since >= LOW_LOG_END_S

    def lost_appends(self) -> None:
        """Prepare to append again what the target has lost, from its log end on."""
        self._low_since = None
        self.window.clear()
        self.recovered()

    def _note(self, message: str) -> None:
        self.last_error = message
        self._delay_s = RETRY_S[min(self._unknown_outcomes, len(RETRY_S) - 1)]
        self._unknown_outcomes += 1

    def _read_if_quiet(self) -> Commands:
        return (ReadTargetLog(self._delay_s),) if self.window.wants_log_end else NOTHING
