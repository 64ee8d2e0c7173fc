"""Counts the writes that a pause must wait for: those in flight, and those with an unknown outcome.

The promote relies on this file: `drain` returns only when no earlier write to the topic can still be answered, and it
returns how many answers were lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.cutover.write_pause.interface import Stall

if TYPE_CHECKING:
    from gateway.proxy.transactions.write_pause import TransactionPauses

ACKED_KEPT_S = 300.0
"""Acknowledgements are kept this long. By then every gateway has refreshed its metadata from other brokers several
times (`kafka/metadata.py`), so it asks the present leaders. Not for ever: a source can lose records for good."""
UNKNOWN_KEPT_S = 30.0  # a request whose answer was lost may still be appended by the source for about this long


class Forwarder:
    """In-flight counts per mirror topic: `InFlight`. One event loop, no locks."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._in_flight: dict[str, int] = {}
        self._unknown: dict[str, deque[float]] = {}
        self._acked: dict[str, dict[int, tuple[int, float]]] = {}  # topic -> partition -> end of the records, and when
        self._drained: dict[str, list[asyncio.Future[None]]] = {}
        self.transactions: TransactionPauses | None = None
        self.drop: Callable[[str], None] = lambda _topic: None  # closes the connections on which a topic's writes wait
        self.throttled: Callable[[str], str] = lambda _topic: ""  # why the topic's source lets writes in flight wait
        self.stalls_seen: Callable[[str, int], Sequence[Stall]] = lambda _topic, _epoch: ()

    def begin(self, topics: Iterable[str]) -> None:
        """A write to these topics is about to be sent to a source."""
        for topic in topics:
            self._in_flight[topic] = self._in_flight.get(topic, 0) + 1

    def end(self, topics: Iterable[str], *, unknown: bool) -> None:
        """A write to these topics was answered; or, `unknown`, its connection broke before the answer."""
        for topic in topics:
            left = self._in_flight[topic] - 1
            if unknown:
                self.unknown(topic)
            if left:
                self._in_flight[topic] = left
                continue
            del self._in_flight[topic]
            for waiter in self._drained.pop(topic, ()):
                if not waiter.done():
                    waiter.set_result(None)

    def unknown(self, topic: str) -> None:
        """A write to the topic has, or may have, ended with an unknown outcome."""
        self._unknown.setdefault(topic, deque(maxlen=1000)).append(self._clock())

    def acknowledged(self, topic: str, partition: int, end: int) -> None:
        """Note that a client gets the answer that all replicas of the source have its records below `end`."""
        known = self._acked.setdefault(topic, {})
        if end >= known.get(partition, (0, 0.0))[0]:
            known[partition] = end, self._clock()

    def acked(self, topic: str) -> tuple[tuple[int, int], ...]:
        """See `PauseAck`."""
        since = self._clock() - ACKED_KEPT_S
        return tuple((partition, end) for partition, (end, at) in self._acked.get(topic, {}).items() if at >= since)

    def cut_over(self, topic: str) -> None:
        """The topic is now written on the target. After a failback its source may continue at lower offsets."""
        self._acked.pop(topic, None)

    def in_flight(self, topic: str) -> int:
        """Requests sent to the source (or, counted, to the target) and not answered yet."""
        return self._in_flight.get(topic, 0)

    async def drain(self, topic: str) -> int:
        """See `InFlight`. The topic must be paused already, so that nothing new begins.

        Transactions that are open go on, to their end.
        """
        return (await self.drain_all([topic]))[topic]

    async def drain_all(self, topics: Collection[str]) -> Mapping[str, int]:
        """See `InFlight`. The topics must be paused already, as for `drain`."""
        if self.transactions is not None:
            await self.transactions.adopt(topics)
        return {topic: await self._drain_adopted(topic) for topic in topics}

    async def _drain_adopted(self, topic: str) -> int:
        transactions = self.transactions
        while self.in_flight(topic) or (transactions is not None and transactions.blocking(topic)):
            if self.in_flight(topic):
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._drained.setdefault(topic, []).append(waiter)
                await waiter
            elif transactions is not None and await transactions.wait_for_end(topic):
                self.unknown(topic)
        if transactions is not None:
            transactions.close(topic)
        since = self._clock() - UNKNOWN_KEPT_S
        return sum(1 for at in self._unknown.get(topic, ()) if at >= since)

    def cut(self, topic: str) -> None:
        """See `gateway.cutover.write_pause.interface.InFlight`."""
        self.drop(topic)

    def stalls(self, topic: str, epoch: int) -> Sequence[Stall]:
        """See `InFlight`."""
        return self.stalls_seen(topic, epoch)

    def blocked_by(self, topic: str) -> str:
        """See `InFlight`."""
        if self.in_flight(topic):
            return self.throttled(topic)
        return "" if self.transactions is None else self.transactions.blocked_by(topic)
