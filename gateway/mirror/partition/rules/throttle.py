"""How much may be in flight: bytes that a link fetches, and small requests that append.

`Throttle` is a token bucket that may go into debt. `Depth` allows as many requests in flight to a broker as keep it
busy, plus one that waits.

A broker handles a connection's requests one after the other, and with acks=all each lasts until the replicas have its
batches. Requests beyond the round trip only queue at the broker: their records are late by the whole queue, and records
that arrive meanwhile need yet another request. Records held back here join the next request, whatever their partition.
So a nearby broker gets two requests, one to work on and one that is there when the first is done; a distant one gets
more, by how many it handles within a round trip.

Two times are measured: the round trip of a request that travelled alone, and how long the broker took for one queued
behind another. While requests queue, no round trip belongs to one request, so now and then one is sent alone. Large
requests are not held back by this: they carry a backlog, and their bytes keep the broker busy.
"""

from __future__ import annotations

from typing import Final

_BURST_S: Final = 0.25
_MIN_FETCH_BYTES: Final = 64 * 1024
_LEAST_DEBT: Final = 1.0


class Throttle:
    """Limits a link's fetches. The size of an answer is known only when it arrives, so it is paid for afterwards.

    Args:
        bytes_per_s: the limit; 0 for none.

    Attributes:
        told_ms: how long brokers have throttled this link (`throttle_time_ms`, KIP-219), in total.
    """

    __slots__ = ("_at", "_rate", "_tokens", "told_ms")

    def __init__(self, bytes_per_s: int, now: float) -> None:
        self._rate = bytes_per_s
        self._tokens = 0.0
        self._at = now
        self.told_ms = 0

    def change(self, bytes_per_s: int, now: float) -> None:
        """Set another limit; the debt under the former one is forgiven."""
        if bytes_per_s != self._rate:
            self._rate, self._tokens, self._at = bytes_per_s, 0.0, now

    def wait_s(self, now: float) -> float:
        """How long to wait before the next fetch, in seconds."""
        if not self._rate:
            return 0.0
        self._tokens = min(self._tokens + (now - self._at) * self._rate, self._rate * _BURST_S)
        self._at = now
        if self._tokens > -_LEAST_DEBT:  # a rounding error, too short for any clock
            return 0.0
        return -self._tokens / self._rate

    def spend(self, size: int) -> None:
        """Note an answer's bytes."""
        self._tokens -= size

    def limit(self, max_bytes: int) -> int:
        """The most that one fetch may ask for, so that the debt stays short."""
        return max_bytes if not self._rate else min(max_bytes, max(_MIN_FETCH_BYTES, int(self._rate * _BURST_S)))


FEWEST: Final = 2
MOST: Final = 5
ALONE_EVERY_S: Final = 5.0
"""How old the measured round trip may be. Sending one request alone idles the broker for at most a round trip."""

_WEIGHT: Final = 1 / 8
_LEAST_S: Final = 1e-4


class Depth:
    """How many small requests may be in flight on one connection. Times are monotonic seconds."""

    __slots__ = ("_alone_at", "_alone_s", "_answered_at", "_served_s")

    def __init__(self) -> None:
        self._alone_s = 0.0
        self._alone_at = 0.0
        self._served_s = 0.0  # 0: no request has queued behind another yet
        self._answered_at = 0.0

    def answered(self, sent_at: float, now: float, *, alone: bool) -> None:
        """Note an answer, in the order of requests. `alone`: nothing else was in flight when its request was sent."""
        if alone:
            self._alone_s, self._alone_at = now - sent_at, now
        elif self._answered_at > sent_at:
            took_s = now - self._answered_at
            self._served_s += (took_s - self._served_s) * (_WEIGHT if self._served_s else 1.0)
        self._answered_at = now

    def most(self, now: float) -> int:
        """How many small requests may be in flight now; 1: the next one must travel alone."""
        if not self._served_s:
            return MOST
        if now - self._alone_at >= ALONE_EVERY_S:
            return 1
        within = round(self._alone_s / max(self._served_s, _LEAST_S))
        return max(FEWEST, min(MOST, within + 1))
