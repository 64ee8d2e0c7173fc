"""How far each mirrored partition has come, and who waits for it.

Written by the mirror engine after every append, and by what other gateways say of the partitions that they mirror;
waited on by `ack: both`, group promote and topic promote. No I/O: a waiter is a callback.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from gateway.kafka.topic_partition import TopicPartition


class MirrorProgress:
    """Mirrored-to positions in *source* offsets: every source record below is on the target.

    Attributes:
        moved: what was advanced since somebody has emptied it; None while nobody is interested.
        on_wait: told of each partition that somebody begins to wait for.
    """

    __slots__ = ("_positions", "_ties", "_waiters", "moved", "on_wait")

    def __init__(self) -> None:
        self.moved: set[TopicPartition] | None = None
        self.on_wait: Callable[[TopicPartition], None] = lambda key: None
        self._positions: dict[str, dict[int, int]] = {}
        self._waiters: dict[TopicPartition, list[tuple[int, int, Callable[[], None]]]] = {}
        self._ties = count()

    def position(self, topic: str, partition: int) -> int | None:
        """The next source offset to be mirrored, or None before the engine knows it."""
        found = self._positions.get(topic)
        return None if found is None else found.get(partition)

    def advance(self, topic: str, partition: int, position: int) -> None:
        """Set the position and call every waiter it satisfies, lowest offset first."""
        key = (topic, partition)
        if self.moved is not None:
            self.moved.add(key)
        self._reached(key, position)

    def heard(self, topic: str, partition: int, position: int) -> None:
        """Another gateway mirrors it and says that it has come so far. What it says late is left."""
        known = self.position(topic, partition)
        if position > (-1 if known is None else known):
            self._reached((topic, partition), position)

    def _reached(self, key: TopicPartition, position: int) -> None:
        self._positions.setdefault(key[0], {})[key[1]] = position
        waiters = self._waiters.get(key)
        while waiters and waiters[0][0] <= position:
            heapq.heappop(waiters)[2]()

    def forget(self, topic: str) -> None:
        """Drop a topic's positions (mirror deleted). Its waiters are left to their own deadlines."""
        self._positions.pop(topic, None)

    def when(self, topic: str, partition: int, position: int, callback: Callable[[], None]) -> None:
        """Call `callback` once the position is reached; at once if it already is."""
        now = self.position(topic, partition)
        if now is not None and now >= position:
            callback()
            return
        heapq.heappush(self._waiters.setdefault((topic, partition), []), (position, next(self._ties), callback))
        self.on_wait((topic, partition))
