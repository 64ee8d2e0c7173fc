"""Keeps a producer's pipeline in order after one of its requests was refused. Pure; one per client connection.

An idempotent producer has up to five requests in flight. When one is refused (the write pause outlasted the hold, the
source has no leader, or its broker leads no more), those behind it are on their way already, and may meet another
broker than the refused one did. A broker that knows the producer refuses them for their sequence, upon which some
clients begin a new epoch and send again what they know no outcome of, appended or not. One that has never seen the
producer, such as the target right after a cutover, takes any first sequence, and the retry of the refused batch would
come too late. So what follows a refused batch is refused too, until all that was refused before it has come again. What
is kept is bounded by what a producer can have on its way: clients choose producer ids and sequences.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PIPELINE = 5  # the most that idempotent producers have in flight (max.in.flight.requests.per.connection)
FORGET_S = 10.0
SEQUENCES = 1 << 31
KEPT = 20_000
"""Producers' partitions of one connection, as many as a request may name; of more the oldest are let through."""

Batch = tuple[str, int, int, int, int]
"""Topic, partition, producer id, epoch, first sequence."""


@dataclass(slots=True)
class _Refused:
    epoch: int
    sequences: list[int]  # in the producer's order
    until: float
    left: int


class PipelineGuard:
    """Times are monotonic seconds."""

    __slots__ = ("_forget_at", "_refused")

    def __init__(self) -> None:
        self._refused: dict[tuple[str, int, int], _Refused] = {}
        self._forget_at = 0.0

    def refused(self, batches: Iterable[Batch], now: float) -> None:
        """These were refused, by the gateway or by a broker, and are sent again if the producer goes on."""
        self._forget_at = now + FORGET_S
        for topic, partition, producer_id, epoch, sequence in batches:
            if producer_id < 0 or sequence < 0:
                continue
            key = (topic, partition, producer_id)
            entry = self._refused.get(key)
            if entry is None or entry.epoch != epoch:
                if entry is None and len(self._refused) >= KEPT:
                    del self._refused[next(iter(self._refused))]
                self._refused[key] = _Refused(epoch, [sequence], self._forget_at, PIPELINE - 1)
            elif sequence not in entry.sequences and len(entry.sequences) < PIPELINE:
                later = (at for at, other in enumerate(entry.sequences) if _precedes(sequence, other))
                entry.sequences.insert(next(later, len(entry.sequences)), sequence)

    def admits(self, batches: Iterable[Batch], now: float) -> bool:
        """False when one of the batches follows a refused one that has not come again.

        Bounded: no more than what can have been on its way is refused, and nothing after `FORGET_S`.
        """
        if now >= self._forget_at:
            self._refused.clear()
        if not self._refused:
            return True
        admitted = True
        for topic, partition, producer_id, epoch, sequence in batches:
            key = (topic, partition, producer_id)
            entry = self._refused.get(key)
            if entry is None:
                continue
            if epoch != entry.epoch or entry.left <= 0 or now >= entry.until or entry.sequences == [sequence]:
                del self._refused[key]
            elif sequence == entry.sequences[0]:
                entry.sequences.pop(0)
                entry.left, entry.until = PIPELINE - 1, now + FORGET_S
                self._forget_at = entry.until
            elif not _precedes(sequence, entry.sequences[0]):
                entry.left -= 1
                admitted = False
        return admitted

    def __bool__(self) -> bool:
        return bool(self._refused)


def _precedes(one: int, other: int) -> bool:
    """Sequences are counted round: after 2^31 - 1 comes 0."""
    return 0 < (other - one) % SEQUENCES < SEQUENCES // 2
