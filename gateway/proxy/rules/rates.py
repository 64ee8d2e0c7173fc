"""So many of something a second, for each key: buckets that hold two seconds' worth. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

BURST_S: Final = 2.0
KEPT: Final = 4_096  # buckets; those that are full again are forgotten when there are more


class Rates:
    """Of each key `rate` a second. `len`: how many keys are remembered."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self.rate = rate
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and when there were so many

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str) -> bool:
        """One more; False: it is one too many."""
        rate, now = self.rate, self._clock()
        most = max(1.0, rate * BURST_S)
        tokens, at = self._buckets.get(key, (most, now))
        tokens = min(most, tokens + (now - at) * rate)
        if len(self._buckets) >= KEPT and key not in self._buckets:
            self._forget(now, rate, most)
        self._buckets[key] = (tokens - 1 if tokens >= 1 else tokens, now)
        return tokens >= 1

    def _forget(self, now: float, rate: float, most: float) -> None:
        """Drop the buckets that are full; all of them if none is: that many addresses at once have no rate to keep."""
        kept = {a: (tokens, at) for a, (tokens, at) in self._buckets.items() if tokens + (now - at) * rate < most}
        self._buckets = kept if len(kept) < KEPT else {}
