"""How far each mirrored partition has come, and who waits for it.

Written by the mirror engine after every append; waited on by `ack: both`, group promote and topic promote.
No I/O: a waiter is a callback.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Key = tuple[str, int]  # (mirror topic, partition)


class MirrorProgress:
    """Mirrored-to positions in *source* offsets: every source record below is on the target."""

    __slots__ = ("_positions", "_ties", "_waiters")

    def __init__(self) -> None:
        self._positions: dict[Key, int] = {}
        self._waiters: dict[Key, list[tuple[int, int, Callable[[], None]]]] = {}
        self._ties = count()

    def position(self, topic: str, partition: int) -> int | None:
        """The next source offset to be mirrored, or None before the engine knows it."""
        return self._positions.get((topic, partition))

    def advance(self, topic: str, partition: int, position: int) -> None:
        """Set the position and call every waiter it satisfies, lowest offset first."""
        key = (topic, partition)
        self._positions[key] = position
        waiters = self._waiters.get(key)
        while waiters and waiters[0][0] <= position:
            heapq.heappop(waiters)[2]()

    def forget(self, topic: str) -> None:
        """Drop a topic's positions (mirror deleted). Its waiters are left to their own deadlines."""
        for key in [k for k in self._positions if k[0] == topic]:
            del self._positions[key]

    def when(self, topic: str, partition: int, position: int, callback: Callable[[], None]) -> None:
        """Call `callback` once the position is reached; at once if it already is."""
        now = self._positions.get((topic, partition))
        if now is not None and now >= position:
            callback()
            return
        heapq.heappush(self._waiters.setdefault((topic, partition), []), (position, next(self._ties), callback))
