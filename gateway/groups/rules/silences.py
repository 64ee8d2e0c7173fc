"""For how long nobody may have committed for a group before nobody is taken to: by the pauses that its commits had.

A consumer that assigns its partitions itself is seen by its commits alone. Some commit every 5 s, jobs that do so at
their checkpoints every 1 to 10 minutes: the same silence says that the one is gone, and nothing of the other.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

KEPT: Final = 10
"""Silences that are remembered: one of a night without records counts until as many commits have come since."""
TIMES: Final = 2.0
"""How many times the longest silence must pass: one commit may have been left out, as a checkpoint that failed is."""
QUIET_MOST_S: Final = 1200.0
"""Twice the longest interval that checkpoints commonly have."""
_GROWS: Final = 1.25


class Silences(NamedTuple):
    """`last`: for how long, in seconds, no commit was seen before one was; the newest last, `KEPT` at most."""

    last: tuple[float, ...] = ()

    def ended(self, silence_s: float) -> Silences:
        """One more, ended by a commit."""
        return Silences((*self.last, silence_s)[-KEPT:])

    @property
    def longest_s(self) -> float:
        """0 when no commit was seen."""
        return max(self.last, default=0.0)

    def quiet_s(self, least_s: float) -> float:
        """How long nobody must commit, in seconds: `least_s` to `QUIET_MOST_S`."""
        return max(least_s, min(TIMES * self.longest_s, QUIET_MOST_S))

    def to_store(self, stored_s: int, least_s: float) -> int:
        """What a group's record is to say of it, in whole seconds: as it says, or more.

        It does for whoever leads next, and is not written for each silence that is a little longer than the one before:
        20 times at most for a group.
        """
        longest_s = math.ceil(min(self.longest_s, QUIET_MOST_S / TIMES))
        is_news = TIMES * longest_s > least_s and longest_s > _GROWS * stored_s
        return longest_s if is_news else stored_s

    def why(self, least_s: float) -> str:
        """Why it is longer than the least; '' when it is not."""
        if self.quiet_s(least_s) == least_s:
            return ""
        return f"; its last commits came up to {self.longest_s:.0f} s apart"


NO_SILENCES: Final = Silences()
"""Of a group of which no commit was seen."""
