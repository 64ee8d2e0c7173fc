"""Keeps a producer's pipeline in order after one of its requests was refused. Pure; one per client connection.

An idempotent producer has up to five requests in flight. When one is refused (the fence outlasted the hold, the source
has no leader), those behind it are on their way already. A broker that knows the producer refuses them for their
sequence; one that has never seen it, such as the target right after a flip, takes any first sequence, and the retry of
the refused batch would come too late. So what follows a refused batch is refused too, until the batch comes again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PIPELINE = 5  # the most that idempotent producers have in flight (max.in.flight.requests.per.connection)
FORGET_S = 10.0

Batch = tuple[str, int, int, int, int]
"""Topic, partition, producer id, epoch, first sequence."""


@dataclass(slots=True)
class _Refused:
    epoch: int
    sequence: int
    until: float
    left: int


class PipelineGuard:
    """Times are monotonic seconds."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[tuple[str, int, int], _Refused] = {}

    def refused(self, batches: Iterable[Batch], now: float) -> None:
        """These were refused. What was refused before them in the same partition stays the one to wait for."""
        for topic, partition, producer_id, epoch, sequence in batches:
            if producer_id >= 0 and sequence >= 0:
                entry = _Refused(epoch, sequence, now + FORGET_S, PIPELINE - 1)
                self._refused.setdefault((topic, partition, producer_id), entry)

    def admits(self, batches: Iterable[Batch], now: float) -> bool:
        """False when one of the batches follows a refused one that has not come again.

        Bounded: no more than what can have been on its way is refused, and nothing after `FORGET_S`.
        """
        if not self._refused:
            return True
        admitted = True
        for topic, partition, producer_id, epoch, sequence in batches:
            key = (topic, partition, producer_id)
            entry = self._refused.get(key)
            if entry is None:
                continue
            came_again = epoch != entry.epoch or sequence == entry.sequence
            if came_again or entry.left <= 0 or now >= entry.until:
                del self._refused[key]
            else:
                entry.left -= 1
                admitted = False
        return admitted

    def __bool__(self) -> bool:
        return bool(self._refused)
