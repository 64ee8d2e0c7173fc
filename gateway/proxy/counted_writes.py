"""Writes to the target that are counted until they are answered: those to topics that are mirrored back.

A promote home waits under its fence until none of them is in flight, as a promote does for writes to a source. A topic
becomes counted while the gateway runs; what was passed on untouched before that is found here and counted from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gateway.domain.routing import Routing
from gateway.proxy.exchange import Exchange, framed
from gateway.proxy.forwarder import UNKNOWN_KEPT_S
from protocol.apis import ApiKey

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.session import Session

LEASE_OVER = "write lease over: the outcome of a write is unknown"
"""Why a connection closes whose answer comes when nobody waits for this gateway any more (`domain/leases.py`)."""

_PRODUCE = int(ApiKey.PRODUCE)


def count_until_answered(session: Session, topics: Iterable[str]) -> Callable[[], None]:
    """Count one request in flight to these mirror topics; to be called when it was answered.

    When the client's connection ends first, its outcome is unknown.
    """
    names = sorted(topics)
    forwarder = session.context.forwarder
    if session.closed:
        return lambda: None
    forwarder.begin(names)

    def lost() -> None:
        forwarder.end(names, unknown=True)

    def answered() -> None:
        if not session.closed:
            session.on_close.remove(lost)
            forwarder.end(names, unknown=False)

    session.on_close.append(lost)
    return answered


class _Counted:
    """The transform of a request that was not counted when it was sent: it leaves the answer as it is."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._answered: list[Callable[[], None]] = []

    def count(self, topics: Iterable[str]) -> None:
        """From now on it counts for these too."""
        self._answered.append(count_until_answered(self._session, topics))

    def __call__(self, frame: memoryview) -> bytes | None:
        if self._answered and not self._session.context.lease_valid():
            self._session.close(LEASE_OVER)
            return None
        for answered in self._answered:
            answered()
        return framed(frame)


class CountedWrites:
    """Finds what is in flight to topics that become counted. `routing_changed` subscribes to the routing table."""

    def __init__(self, context: ProxyContext) -> None:
        self._context = context
        self._topics: frozenset[str] = frozenset()

    def routing_changed(self, routing: Routing) -> None:
        """A new snapshot is in force."""
        topics = frozenset(topic for topic, route in routing.topics.items() if route.counted)
        new, self._topics = topics - self._topics, topics
        if not new:
            return
        for session in self._context.sessions:
            for exchange in session.unanswered_by_target():
                self._count(session, exchange, new)
        if self._context.clock() - self._context.stats.last_unanswered < UNKNOWN_KEPT_S:
            for topic in new:  # a write with acks=0 has no answer to wait for
                self._context.forwarder.unknown(topic)

    def _count(self, session: Session, exchange: Exchange, topics: frozenset[str]) -> None:
        """Which topics it holds is not known: it counts for all."""
        if exchange.api_key != _PRODUCE:
            return
        if exchange.transform is None:
            exchange.transform = _Counted(session)
        if isinstance(exchange.transform, _Counted):
            exchange.transform.count(topics)
