"""The status of one mirrored partition: its position, its rate, and its errors.

Rates are sampled once a second, so measuring costs the copy itself nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from gateway.mirror.interface import PartitionStatus
from gateway.mirror.partition.rules.partition import PartitionMirror

_RATE_S: Final = 5.0
_WINDOW_S: Final = 60.0
SETTLED_S: Final = _WINDOW_S + 5.0
"""When a partition has not changed for this long, all its figures are final."""

_GRACE_S: Final = 1.0  # how late the forwarder may report a record that the mirror has already seen


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
        """Start again without samples."""
        self._samples.clear()

    def per_second(self) -> float:
        """Growth per second over the samples kept."""
        if len(self._samples) < 2:
            return 0.0
        (first_at, first), (last_at, last) = self._samples[0], self._samples[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0


class _MeterSpan:
    """Source offsets that appeared within one second, and how many of their records came through a gateway."""

    __slots__ = ("closed_at", "end", "forwarded", "gateway", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.closed_at = 0.0
        self.forwarded = 0  # reported by this gateway's forwarder
        self.gateway = 0  # seen by the mirror, by producer id


class BypassMeter:
    """Counts records of the last minute that no gateway forwarded: their producers have not migrated yet.

    It counts by offsets, not by clock: the growth of the source's end, minus the records that the forwarder reports
    there. So the result does not depend on which of the two is heard first. A producer id issued by a gateway also
    marks a record as forwarded (by another gateway, or with an answer that got lost).
    """

    __slots__ = ("_gateway_records", "_open", "_spans")

    def __init__(self) -> None:
        self._spans: deque[_MeterSpan] = deque()
        self._open: _MeterSpan | None = None
        self._gateway_records = 0

    def sample(self, end: int, position: int, gateway_records: int, now: float) -> None:
        """Note the present state, about once a second.

        Args:
            end: the source's end as the mirror knows it.
            position: how far the mirror has read.
            gateway_records: how many records with a gateway-issued producer id the mirror has read in total.
            now: monotonic seconds.
        """
        seen, self._gateway_records = gateway_records - self._gateway_records, gateway_records
        span = self._open
        if span is None:
            self._open = _MeterSpan(end)
            return
        if end > span.start:
            span.end, span.closed_at = end, now
            if position > span.start:  # otherwise the records read are older than this span
                span.gateway = seen
            self._spans.append(span)
            self._open = _MeterSpan(end)
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

    def _span_before(self, offset: int) -> _MeterSpan | None:
        for span in reversed(self._spans):
            if offset >= span.start:
                return span
        return None


class PartitionReport:
    """Args.

    clock: monotonic seconds.
    wall_ms: the time of day in milliseconds.

    Attributes:
        waits_for: what the source waits for before it shows more records; "" for nothing.
    """

    __slots__ = ("_clock", "_mirror", "_rate", "_wall_ms", "bypass", "waits_for")

    def __init__(self, mirror: PartitionMirror, clock: Callable[[], float], wall_ms: Callable[[], int]) -> None:
        self._mirror = mirror
        self._clock = clock
        self._wall_ms = wall_ms
        self._rate = RateMeter()
        self.bypass = BypassMeter()
        self.waits_for = ""

    @property
    def waits(self) -> str:
        """`waits_for`, or the schema ids that the id map lacks."""
        rewriter = self._mirror.rewriter
        waiting = None if rewriter is None or self._mirror.ended else rewriter.waiting
        return self.waits_for if waiting is None else str(waiting)

    def sample(self, now: float) -> None:
        """Once a second: measure rate and bypass."""
        source = self._mirror.source
        self._rate.sample(now, self._mirror.window.bytes)
        if source.end >= 0:
            self.bypass.sample(source.end, source.cursor.position, source.cursor.gateway_records, now)

    def rest(self) -> None:
        """Stop measuring until the partition changes again: the old samples would then give a wrong rate."""
        self._rate.clear()

    def status(self, partition: int, told: int) -> PartitionStatus:
        """The present status.

        Args:
            partition: the partition's number.
            told: the source offset up to which the partition is known to be mirrored; -1: not known yet.
        """
        mirror, window = self._mirror, self._mirror.window
        known = told >= 0 and mirror.source.end >= 0
        lag = max(0, mirror.source.end - mirror.mirrored_to) if known else None
        waiting = window.oldest.timestamp_ms if window.oldest else window.last_timestamp_ms
        return PartitionStatus(
            partition=partition,
            phase=mirror.phase,
            source_end=mirror.source.end if mirror.source.end >= 0 else None,
            mirrored_to=told if told >= 0 else None,
            target_end=window.position,
            lag=lag,
            lag_ms=self._behind_ms(lag, waiting),
            bytes_per_s=self._rate.per_second(),
            records_total=window.records,
            bytes_total=window.bytes,
            bypassed_last_minute=self.bypass.last_minute(self._clock()),
            last_error=mirror.last_error,
            segments=len(mirror.translator.ledger.map) if mirror.translator and mirror.translates else 0,
            waits_for=self.waits,
            source_start=mirror.source.start if mirror.source.start >= 0 else None,
            merged_total=window.merged,
            leader_bytes_total=mirror.source.leader_bytes,
            follower_bytes_total=mirror.source.follower_bytes,
            queued_bytes=mirror.source.queued_bytes,
            missing_ids=() if mirror.rewriter is None or mirror.ended else mirror.rewriter.missing,
            ids_written_total=0 if mirror.rewriter is None else mirror.rewriter.written,
        )

    def _behind_ms(self, lag: int | None, waiting_since_ms: int) -> int | None:
        if not lag:
            return lag
        return max(0, self._wall_ms() - waiting_since_ms) if waiting_since_ms > 0 else None
