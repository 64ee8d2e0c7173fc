"""Which clients waited under a write pause, and for how long: what a rehearsal of a promote tells people.

A client is a client id at an address. Its stall runs from its first request that waited to the last one that was let
go, so one that was refused in between and came again counts as one that waited all the time. Counted per pause, so
that one pause's numbers never get into another's. Bounded: the clients that came first are dropped first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.cutover.write_pause.interface import Stall

CLIENTS: Final = 1_000
"""That are known, of all pauses together."""


class _Key(NamedTuple):
    topic: str
    epoch: int
    client_id: str
    address: str


@dataclass(slots=True)
class _Waited:
    """Monotonic seconds. `waiting`: requests that wait now; `until`: when the last of the others was let go."""

    since: float
    until: float
    waiting: int = 0


class StallsSeen:
    """Of one gateway."""

    def __init__(self, clock: Callable[[], float], most: int = CLIENTS) -> None:
        self._clock = clock
        self._most = most
        self._of: dict[_Key, _Waited] = {}

    def began(self, topic: str, epoch: int | None, client_id: str, address: str) -> Callable[[], None]:
        """A request waits under the topic's pause. Returns what is to be called when it waits no more.

        `epoch`: the pause's; None: it waits for something else than a pause, and nothing is noted.
        """
        if epoch is None:
            return lambda: None
        now, key = self._clock(), _Key(topic, epoch, client_id, address)
        waited = self._of.get(key)
        if waited is None:
            while len(self._of) >= self._most:
                del self._of[next(iter(self._of))]
            waited = self._of[key] = _Waited(now, now)
        waited.waiting += 1

        def over() -> None:
            waited.waiting -= 1
            waited.until = self._clock()

        return over

    def of(self, topic: str, epoch: int) -> Sequence[Stall]:
        """The clients that waited under that pause; those that wait yet until now."""
        now = self._clock()
        return [
            Stall(key.client_id, key.address, (now if waited.waiting else waited.until) - waited.since)
            for key, waited in self._of.items()
            if (key.topic, key.epoch) == (topic, epoch)
        ]
