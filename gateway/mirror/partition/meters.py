"""Measurements of one partition, sampled once a second so that the copy itself pays nothing."""

from __future__ import annotations

from collections import deque
from typing import Final

_RATE_S: Final = 5.0
_WINDOW_S: Final = 60.0
SETTLED_S: Final = _WINDOW_S + 5.0
"""When nothing has moved for so long, every figure stays as it is."""

_GRACE_S: Final = 1.0  # how late the forwarder may tell about a record that the mirror has seen already


class RateMeter:
    """A moving rate over the last five seconds."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def sample(self, now: float, total: int) -> None:
        """Note a running total."""
        samples = self._samples
        samples.append((now, total))
        while len(samples) > 2 and now - samples[0][0] > _RATE_S:
            samples.popleft()

    def clear(self) -> None:
        """Begin anew."""
        self._samples.clear()

    def per_second(self) -> float:
        """Growth per second over the samples kept."""
        if len(self._samples) < 2:
            return 0.0
        (first_at, first), (last_at, last) = self._samples[0], self._samples[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0


class _Span:
    """Source offsets that appeared within one second, and how many of their records came through a gateway."""

    __slots__ = ("closed_at", "end", "forwarded", "gateway", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.closed_at = 0.0
        self.forwarded = 0  # told by this gateway's forwarder
        self.gateway = 0  # seen by the mirror, by producer id


class BypassMeter:
    """Counts records of the last minute that no gateway forwarded: their producers have not migrated yet.

    By offsets, not by clock: what the source's end grew by, less what the forwarder says it wrote there. So a
    record counts on the same side whenever either of the two is heard of. The producer ids that gateways hand
    out mark a record as forwarded too (another gateway, or an answer that got lost).
    """

    __slots__ = ("_gateway_records", "_open", "_spans")

    def __init__(self) -> None:
        self._spans: deque[_Span] = deque()
        self._open: _Span | None = None
        self._gateway_records = 0

    def sample(self, end: int, position: int, gateway_records: int, now: float) -> None:
        """To be called about once a second.

        Args:
            end: the source's end as the mirror knows it.
            position: how far the mirror has read.
            gateway_records: how many records with a gateway-issued producer id it has read in all.
            now: monotonic seconds.
        """
        seen, self._gateway_records = gateway_records - self._gateway_records, gateway_records
        span = self._open
        if span is None:
            self._open = _Span(end)
            return
        if end > span.start:
            span.end, span.closed_at = end, now
            if position > span.start:  # else what was read is older than this span
                span.gateway = seen
            self._spans.append(span)
            self._open = _Span(end)
        while self._spans and now - self._spans[0].closed_at > _WINDOW_S:
            self._spans.popleft()

    def forwarded(self, base_offset: int, records: int) -> None:
        """The forwarder wrote a batch at `base_offset`."""
        span = self._open
        if span is not None and base_offset < span.start:
            span = self._span_before(base_offset)
        if span is not None:
            span.forwarded += records

    def last_minute(self, now: float) -> int:
        """Records of the last minute that bypassed the gateways; never negative."""
        return sum(
            max(0, span.end - span.start - max(span.forwarded, span.gateway))
            for span in self._spans
            if now - span.closed_at >= _GRACE_S
        )

    def _span_before(self, offset: int) -> _Span | None:
        for span in reversed(self._spans):
            if offset >= span.start:
                return span
        return None
