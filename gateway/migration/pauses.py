"""How long the last write pause of each topic was: for the journal of a migration. Kept while a gateway leads.

Of each topic, since topics of one link are promoted side by side: by two migrations, or by a migration and by hand. The
journal of one does not tell of another's pause.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from gateway.telemetry.numbers import LastPause

CUT_OVER: Final = "stopped"
"""The outcome of a pause that ended in a cutover."""


class PauseSeen(NamedTuple):
    """`at`: monotonic seconds of its end."""

    at: float
    outcome: str
    seconds: float


class PausesSeen:
    """Written by promotes as they end."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[tuple[str, str], PauseSeen] = {}

    def ended(self, link: str, topics: Collection[str], outcome: str, seconds: float) -> None:
        """A write pause of these mirror topics of the link is over."""
        self._last |= dict.fromkeys([(link, topic) for topic in topics], PauseSeen(self._clock(), outcome, seconds))

    def since(self, link: str, topics: Collection[str], begun: float) -> int:
        """Milliseconds of the pause of these mirror topics that has ended in a cutover since; -1 when none has."""
        seen = {self._last.get((link, topic)) for topic in topics}
        (one,) = seen if len(seen) == 1 else (None,)
        return -1 if one is None or one.at < begun or one.outcome != CUT_OVER else round(one.seconds * 1000)

    def last(self, link: str, topic: str) -> LastPause | None:
        """The last one of a mirror topic, however it ended."""
        seen = self._last.get((link, topic))
        return None if seen is None else LastPause(self._clock() - seen.at, seen.seconds)

    def forget(self, link: str, topic: str) -> None:
        """Its mirror was deleted."""
        self._last.pop((link, topic), None)
