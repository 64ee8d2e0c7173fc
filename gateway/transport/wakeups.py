"""Pauses that end together, so that a process at rest wakes up for all of them at once.

A gateway has some twenty things that it looks at once a second. A look itself is next to nothing; what costs is to be
woken: the process's memory has fallen out of the processor's caches since the last time. Each pause for itself begins
when its look has ended, so after a minute twenty looks are twenty wake-ups. So pauses of a second and more end at whole
seconds of the event loop's clock, or at half ones where a whole one would come too early. What is looked at once a
second comes to the whole seconds so within two looks, and stays there.
"""

from __future__ import annotations

from typing import Final

STEP_S: Final = 0.5
SHORTER_S: Final = 0.6
"""The most that a pause is shortened by: more than half a second, or a look that comes to its end some milliseconds
after a half second would never get to the whole ones."""
_EARLY_S: Final = 0.005
"""A timer may go off so early. It counts as in time, or the next pause would be a step shorter."""


def together(seconds: float, now: float) -> float:
    """How long to pause at `now`, on the event loop's clock, to wake up with others.

    At most `seconds`, but for a few milliseconds, and at most `SHORTER_S` below that. A pause of less than a second
    stays as it is.
    """
    if seconds < 2 * STEP_S:
        return seconds
    end = now + seconds + _EARLY_S
    over = end % (2 * STEP_S)
    return end - (over if over < SHORTER_S else over - STEP_S) - now
