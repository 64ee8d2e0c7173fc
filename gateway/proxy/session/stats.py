"""Requests, bytes and latencies per API, counted with plain lists on the hot path.

The telemetry collector reads `snapshot` when it is scraped; nothing here knows Prometheus.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gateway.proxy.rules.stalls import StallsSeen
from gateway.proxy.rules.unmirrored import Unmirrored
from gateway.proxy.session.exchange import Exchange
from gateway.proxy.session.source_rests import SourceRests
from protocol.apis import ApiKey

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
API_KEYS = 128


class ApiSnapshot(NamedTuple):
    """Totals of one API: requests, request bytes, latency bucket counts (not cumulative), sum of seconds."""

    api_key: int
    requests: int
    request_bytes: int
    buckets: tuple[int, ...]
    latency_sum_s: float


class ProxyStats:
    """Counters of the proxy since start."""

    __slots__ = (
        "_buckets",
        "_bytes",
        "_clock",
        "_latency",
        "_requests",
        "closed",
        "forwarded",
        "held",
        "last_unanswered",
        "rests",
        "stalls",
        "unmirrored",
    )

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.last_unanswered = float("-inf")  # when a write without an answer was last passed on
        self._requests = [0] * API_KEYS
        self._bytes = [0] * API_KEYS
        self._latency = [0.0] * API_KEYS
        self._buckets = [[0] * (len(BUCKETS_S) + 1) for _ in range(API_KEYS)]
        self.closed: dict[str, int] = {}  # connections by the first words of why they ended
        self.unmirrored = Unmirrored()
        self.held: dict[str, int] = {}  # produce requests held by a write pause, by topic
        self.forwarded = 0  # produce requests that were sent to a source
        self.stalls = StallsSeen(clock)
        self.rests = SourceRests(clock)

    def began(self, api_key: int, size: int) -> None:
        """A request of `size` bytes was taken."""
        self._requests[api_key] += 1
        self._bytes[api_key] += size

    def unanswered(self, api_key: int, size: int) -> None:
        """A request of `size` bytes was passed on that the target will not answer (acks=0)."""
        self.began(api_key, size)
        self.last_unanswered = self._clock()

    def finished(self, exchange: Exchange, size: int) -> None:
        """Its response is complete (`size` framed bytes, 0 when it streamed through)."""
        if exchange.internal:
            return
        elapsed = self._clock() - exchange.started
        self._latency[exchange.api_key] += elapsed
        self._buckets[exchange.api_key][bisect_left(BUCKETS_S, elapsed)] += 1

    def produced(self) -> int:
        """Produce requests so far, wherever they went."""
        return self._requests[ApiKey.PRODUCE]

    def snapshot(self) -> Iterator[ApiSnapshot]:
        """The APIs that were used at all."""
        for key, requests in enumerate(self._requests):
            if requests:
                yield ApiSnapshot(key, requests, self._bytes[key], tuple(self._buckets[key]), self._latency[key])
