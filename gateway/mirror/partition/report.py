"""What is told of one partition that is mirrored: how far it is, how fast it goes, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable

from gateway.mirror.interface import PartitionStatus
from gateway.mirror.partition.meters import BypassMeter, RateMeter
from gateway.mirror.partition.rules.partition import PartitionMirror


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
        """That, or the ids of schemas that the id map lacks."""
        rewriter = self._mirror.rewriter
        waiting = None if rewriter is None or self._mirror.ended else rewriter.waiting
        return self.waits_for if waiting is None else str(waiting)

    def sample(self, now: float) -> None:
        """Once a second: measure."""
        source = self._mirror.source
        self._rate.sample(now, self._mirror.window.bytes)
        if source.end >= 0:
            self.bypass.sample(source.end, source.cursor.position, source.cursor.gateway_records, now)

    def rest(self) -> None:
        """It is not measured until something becomes of it: what was measured before then is no rate."""
        self._rate.clear()

    def status(self, partition: int, told: int) -> PartitionStatus:
        """As it stands now.

        Args:
            partition: its number.
            told: the source offset up to which it is known to be mirrored; -1: not known yet.
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
