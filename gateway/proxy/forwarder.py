"""Accounts for writes that a fence must wait for: what is in flight, what a fence holds, what ended unknown.

The promote relies on this file: `fence` returns only when nothing of the topic that was sent before can still
be answered, and it says how many answers were lost on the way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING

from gateway.domain.ports import FenceAck
from gateway.domain.routing import Phase, Routing

if TYPE_CHECKING:
    from gateway.proxy.transaction_fences import TransactionFences

UNKNOWN_KEPT_S = 30.0  # a request whose answer was lost may still be appended by the source for about this long


class Forwarder:
    """In-flight counts per mirror topic and the requests that a fence holds. One event loop, no locks."""

    def __init__(self, gateway: str, clock: Callable[[], float]) -> None:
        self._gateway = gateway
        self._clock = clock
        self._in_flight: dict[str, int] = {}
        self._unknown: dict[str, deque[float]] = {}
        self._drained: dict[str, list[asyncio.Future[None]]] = {}
        self._held: dict[str, dict[int, Callable[[], None]]] = {}
        self.transactions: TransactionFences | None = None
        self._keys = count()

    def begin(self, topics: Iterable[str]) -> None:
        """A write to these topics is about to be sent to a source."""
        for topic in topics:
            self._in_flight[topic] = self._in_flight.get(topic, 0) + 1

    def end(self, topics: Iterable[str], *, unknown: bool) -> None:
        """It was answered; or, `unknown`, its connection broke before the answer."""
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
        """A write to the topic has ended, or may have, without anybody knowing how."""
        self._unknown.setdefault(topic, deque(maxlen=1000)).append(self._clock())

    def in_flight(self, topic: str) -> int:
        """Requests sent to the source (or, counted, to the target) and not answered yet."""
        return self._in_flight.get(topic, 0)

    async def fence(self, topic: str, epoch: int) -> FenceAck:
        """See `domain.ports.Fences`. The route must be FENCED already, so that nothing new begins.

        Transactions that are open go on, to their end.
        """
        transactions = self.transactions
        if transactions is not None:
            await transactions.adopt(topic)
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
        unknown = sum(1 for at in self._unknown.get(topic, ()) if at >= since)
        return FenceAck(self._gateway, topic, epoch, unknown)

    async def hold_writes(self, topic: str, epoch: int) -> None:
        """See `domain.ports.Fences`: its route does so."""

    def held_up_by(self, topic: str) -> str:
        """See `domain.ports.Fences`."""
        return "" if self.transactions is None or self.in_flight(topic) else self.transactions.held_up_by(topic)

    def hold(self, topic: str, release: Callable[[], None]) -> int:
        """Keep a write until the topic's fence ends; `release` is called then. Returns the key for `leave`."""
        key = next(self._keys)
        self._held.setdefault(topic, {})[key] = release
        return key

    def leave(self, topic: str, key: int) -> None:
        """Stop holding (released, timed out or disconnected)."""
        held = self._held.get(topic)
        if held is not None:
            held.pop(key, None)

    def held(self) -> dict[str, int]:
        """Requests held now, by topic."""
        return {topic: len(held) for topic, held in self._held.items() if held}

    def routing_changed(self, routing: Routing) -> None:
        """Release, in order of arrival, what was held for topics that are no longer fenced."""
        for topic in list(self._held):
            route = routing.topics.get(topic)
            if route is None or route.phase is not Phase.FENCED:
                for release in list(self._held.pop(topic).values()):
                    release()
