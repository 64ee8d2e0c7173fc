"""How long to wait before the next try."""

from __future__ import annotations

from collections.abc import Callable
from random import random


class Backoff:
    """Exponential backoff with jitter (KIP-580's shape: doubled each time, within ±20 %).

    Args:
        base_s: wait after the first failure, in seconds.
        max_s: longest wait, in seconds, before jitter.
        rng: gives numbers in [0, 1).
    """

    __slots__ = ("_base", "_max", "_rng", "failures")

    def __init__(self, base_s: float, max_s: float, rng: Callable[[], float] = random) -> None:
        self._base = base_s
        self._max = max_s
        self._rng = rng
        self.failures = 0

    def next(self) -> float:
        """Count a failure; return the seconds to wait."""
        wait = min(self._base * 2.0 ** min(self.failures, 30), self._max)
        self.failures += 1
        return wait * (0.8 + 0.4 * self._rng())

    def reset(self) -> None:
        """A try succeeded: start again at the base."""
        self.failures = 0
