"""Pauses that end together, so that a process at rest wakes up for all of them at once.

A gateway has some twenty things that it looks at once a second. A look itself is next to nothing; what costs is to be
woken: the process's memory has fallen out of the processor's caches since the last time. Each pause for itself begins
when its look has ended, so after a minute twenty looks are twenty wake-ups. So pauses of a second and more end at whole
half seconds of the event loop's clock.
"""

from __future__ import annotations

from typing import Final

STEP_S: Final = 0.5
_EARLY_S: Final = 0.005
"""A timer may go off so early. It counts as in time, or the next pause would be a step shorter."""


def together(seconds: float, now: float) -> float:
    """How long to pause at `now`, on the event loop's clock, to wake up with others.

    At most `seconds`, but for a few milliseconds, and less than half a second below that. A pause of less than a second
    stays as it is.
    """
    if seconds < 2 * STEP_S:
        return seconds
    end = now + seconds + _EARLY_S
    return end - end % STEP_S - now
