"""How many bytes a link may fetch: a token bucket that may go into debt."""

from __future__ import annotations

from typing import Final

_BURST_S: Final = 0.25
_MIN_FETCH_BYTES: Final = 64 * 1024
_LEAST_DEBT: Final = 1.0


class Throttle:
    """The size of an answer is known only when it is there, so it is paid for afterwards.

    Args:
        bytes_per_s: the limit; 0 for none.

    Attributes:
        told_ms: for how long brokers have said that they hold this link back (`throttle_time_ms`, KIP-219), in all.
    """

    __slots__ = ("_at", "_rate", "_tokens", "told_ms")

    def __init__(self, bytes_per_s: int, now: float) -> None:
        self._rate = bytes_per_s
        self._tokens = 0.0
        self._at = now
        self.told_ms = 0

    def change(self, bytes_per_s: int, now: float) -> None:
        """Another limit from now on; what is owed by the former one is forgiven."""
        if bytes_per_s != self._rate:
            self._rate, self._tokens, self._at = bytes_per_s, 0.0, now

    def wait_s(self, now: float) -> float:
        """How long to wait before the next fetch, in seconds."""
        if not self._rate:
            return 0.0
        self._tokens = min(self._tokens + (now - self._at) * self._rate, self._rate * _BURST_S)
        self._at = now
        if self._tokens > -_LEAST_DEBT:  # what rounding leaves of it: no clock measures how long that takes
            return 0.0
        return -self._tokens / self._rate

    def spend(self, size: int) -> None:
        """Note an answer's bytes."""
        self._tokens -= size

    def limit(self, max_bytes: int) -> int:
        """The most that one fetch may ask for, so that the debt stays short."""
        return max_bytes if not self._rate else min(max_bytes, max(_MIN_FETCH_BYTES, int(self._rate * _BURST_S)))
