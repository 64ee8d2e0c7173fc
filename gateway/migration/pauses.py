"""How long the last write pause of each link was: for the journal of a migration. Kept while a gateway leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

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
        self._last: dict[str, PauseSeen] = {}

    def ended(self, link: str, outcome: str, seconds: float) -> None:
        """A write pause of the link is over."""
        self._last[link] = PauseSeen(self._clock(), outcome, seconds)

    def since(self, link: str, begun: float) -> int:
        """Milliseconds of the pause that has ended in a cutover since; -1 when none has."""
        seen = self._last.get(link)
        return -1 if seen is None or seen.at < begun or seen.outcome != CUT_OVER else round(seen.seconds * 1000)
