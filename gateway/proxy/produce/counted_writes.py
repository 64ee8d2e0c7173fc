"""Counts writes to the target until they are answered, for topics that are mirrored back.

A failback promote waits under its write pause until none of them is in flight, as a promote does for writes to a
source. A topic becomes counted while the gateway runs; this file also finds and counts writes that were passed on
untouched just before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from gateway.cutover.write_pause.rules.routing import Routing
from gateway.proxy.produce.forwarder import UNKNOWN_KEPT_S, Forwarder
from gateway.proxy.session.exchange import Exchange
from gateway.proxy.session.session import LEASE_OVER, Session
from gateway.proxy.session.stats import ProxyStats
from protocol.apis import ApiKey
from protocol.framing import framed

_PRODUCE = int(ApiKey.PRODUCE)


def count_until_answered(session: Session, forwarder: Forwarder, topics: Iterable[str]) -> Callable[[], None]:
    """Count one request in flight to these mirror topics. Returns the function to call when it is answered.

    If the client's connection ends first, the outcome is unknown.
    """
    names = sorted(topics)
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
    """The transform of a request that was not counted when sent. Leaves the answer unchanged."""

    def __init__(self, session: Session, forwarder: Forwarder) -> None:
        self._session = session
        self._forwarder = forwarder
        self._answered: list[Callable[[], None]] = []

    def count(self, topics: Iterable[str]) -> None:
        """Count the request for these topics, too, from now on."""
        self._answered.append(count_until_answered(self._session, self._forwarder, topics))

    def __call__(self, frame: memoryview) -> bytes | None:
        if self._answered and not self._session.context.lease_valid():
            self._session.close(LEASE_OVER)
            return None
        for answered in self._answered:
            answered()
        return framed(frame)


class CountedWrites:
    """Finds writes in flight to topics that become counted. `routing_changed` subscribes to the routing table."""

    def __init__(
        self, *, sessions: Mapping[Session, None], clock: Callable[[], float], stats: ProxyStats, forwarder: Forwarder
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._stats = stats
        self._forwarder = forwarder
        self._topics: frozenset[str] = frozenset()

    def routing_changed(self, routing: Routing, changed: Collection[str]) -> None:
        """A new snapshot is in force."""
        counted = {topic for topic in changed if (route := routing.topics.get(topic)) is not None and route.counted}
        new = frozenset(counted - self._topics)
        self._topics = self._topics.difference(changed) | counted
        if not new:
            return
        for session in self._sessions:
            for exchange in session.unanswered_by_target():
                self._count(session, exchange, new)
        if self._clock() - self._stats.last_unanswered < UNKNOWN_KEPT_S:
            for topic in new:  # a write with acks=0 has no answer to wait for
                self._forwarder.unknown(topic)

    def _count(self, session: Session, exchange: Exchange, topics: frozenset[str]) -> None:
        """Which topics it holds is not known: it counts for all."""
        if exchange.api_key != _PRODUCE:
            return
        if exchange.transform is None:
            exchange.transform = _Counted(session, self._forwarder)
        if isinstance(exchange.transform, _Counted):
            exchange.transform.count(topics)
