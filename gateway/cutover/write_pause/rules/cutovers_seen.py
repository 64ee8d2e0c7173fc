"""How long a producer may still retry a batch, or the end of a transaction, from before a cutover. Counted from when
this gateway first saw the cutover.

A record's time is another machine's time of day, and nothing may be decided by it: a gateway whose clock is ahead would
drop the producer table at the cutover, and append a retry again. A gateway that restarts counts again from 0, and so
only checks a little longer. Pure: the clock is an argument.
"""

from __future__ import annotations

from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.state.records import MirrorRecord

RETRIED_S = 15 * 60.0
"""Longer than clients retry: delivery.timeout.ms is 2 minutes in Java, message.timeout.ms 5 minutes in librdkafka."""

_Cutover = tuple[int, int, bool]


class CutoversSeen:
    """The cutovers that one gateway has seen. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[_Cutover, float, bool]] = {}  # the last: whether batches may be retried

    def saw(self, topic: str, mirror: MirrorRecord | None, now: float) -> None:
        """Note the present record of a topic's mirror; None: it has none, or none any more."""
        has_producers = mirror is not None and not mirror.cutover.tables.are_empty
        if mirror is None or not (has_producers or written_on_target(mirror)):
            self._first.pop(topic, None)
            return
        cutover, kept = _cutover_of(mirror), self._first.get(topic)
        first = now if kept is None or kept[0] != cutover else kept[1]
        self._first[topic] = cutover, first, has_producers

    def left_s(self, topic: str, now: float) -> float:
        """How many seconds a retried batch may still come; 0: no longer."""
        found = self._first.get(topic)
        return self.ends_left_s(topic, now) if found is not None and found[2] else 0.0

    def ends_left_s(self, topic: str, now: float) -> float:
        """How many seconds the end of a transaction from before the cutover may still come; 0: no longer."""
        found = self._first.get(topic)
        return 0.0 if found is None else max(0.0, found[1] + RETRIED_S - now)


def _cutover_of(mirror: MirrorRecord) -> _Cutover:
    """Distinguishes the cutovers of a topic. The time in it is only a name."""
    return mirror.cutover.at_ms or mirror.state_since_ms, mirror.failback.epoch, written_on_target(mirror)
