"""How far each partition is mirrored, and who waits for it.

The mirror engine advances the positions after every append, and reports of other gateways for the partitions that they
mirror. `ack: both`, group promote and topic promote wait for them. No I/O: a waiter is a callback.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from gateway.kafka.topic_partition import TopicPartition

_Waiter = tuple[int, int, Callable[[], None], Callable[[], None] | None]  # position, tie, reached, ended


class MirrorProgress:
    """Mirrored-to positions in *source* offsets: every source record below is on the target.

    Attributes:
        moved: the partitions advanced since the reader last emptied it; None while there is no reader.
        on_wait: called with each partition for which a wait begins.
    """

    __slots__ = ("_positions", "_ties", "_waiters", "moved", "on_wait")

    def __init__(self) -> None:
        self.moved: set[TopicPartition] | None = None
        self.on_wait: Callable[[TopicPartition], None] = lambda key: None
        self._positions: dict[str, dict[int, int]] = {}
        self._waiters: dict[str, dict[int, list[_Waiter]]] = {}
        self._ties = count()

    def position(self, topic: str, partition: int) -> int | None:
        """The next source offset to mirror, or None before the engine knows it."""
        found = self._positions.get(topic)
        return None if found is None else found.get(partition)

    def advance(self, topic: str, partition: int, position: int) -> None:
        """Set the position and call every waiter it satisfies, lowest offset first."""
        key = (topic, partition)
        if self.moved is not None:
            self.moved.add(key)
        self._reached(key, position)

    def heard(self, topic: str, partition: int, position: int) -> None:
        """Take the position reported by another gateway that mirrors the partition. A lower one than known is stale and
        ignored."""
        known = self.position(topic, partition)
        if position > (-1 if known is None else known):
            self._reached((topic, partition), position)

    def _reached(self, key: TopicPartition, position: int) -> None:
        self._positions.setdefault(key[0], {})[key[1]] = position
        waiters = self._waiters.get(key[0], {}).get(key[1])
        while waiters and waiters[0][0] <= position:
            heapq.heappop(waiters)[2]()

    def begins_anew(self, topic: str) -> None:
        """Drop a topic's positions: its mirror resumes from the copy's log end, perhaps further back."""
        self._positions.pop(topic, None)

    def forget(self, topic: str) -> None:
        """Drop a topic's positions and end the waits for them: another period begins, or the mirror is deleted."""
        self._positions.pop(topic, None)
        self.end_waits(topic)

    def end_waits(self, topic: str) -> None:
        """Records not mirrored by now never will be: call `ended` of each waiter. One without it keeps waiting."""
        for waiters in tuple(self._waiters.get(topic, {}).values()):
            ended = [waiter[3] for waiter in waiters if waiter[3] is not None]
            waiters[:] = [waiter for waiter in waiters if waiter[3] is None]
            heapq.heapify(waiters)
            for call in ended:
                call()

    def when(
        self,
        topic: str,
        partition: int,
        position: int,
        callback: Callable[[], None],
        ended: Callable[[], None] | None = None,
    ) -> None:
        """Call `callback` once the position is reached, at once if it already is, or `ended` if it never will be."""
        now = self.position(topic, partition)
        if now is not None and now >= position:
            callback()
            return
        waiters = self._waiters.setdefault(topic, {}).setdefault(partition, [])
        heapq.heappush(waiters, (position, next(self._ties), callback, ended))
        self.on_wait((topic, partition))
