"""What is in flight to a source when its topic flips is not waited for any more: its connections are dropped.

A promote flips when nothing is in flight. A failover does not wait: the source may be dead. If it is only slow, its
answer would come after the flip, for records that stay behind there; relayed as a success it would be a lie. So the
lanes to that source are closed at the flip, with what their sockets have not sent yet, before writes that were held are
let go to the target. The clients' connections close with an unknown outcome, and their retries go to the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.domain.routing import Phase, Routing

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext

_LANES = ("produce", "transactions")


class FlippedLanes:
    """`routing_changed` subscribes to the routing table, before the forwarder does."""

    def __init__(self, context: ProxyContext) -> None:
        self._context = context
        self._forwarded: dict[str, str] = {}  # mirror topic -> link, of those written to their source until now

    def routing_changed(self, routing: Routing) -> None:
        """A new snapshot is in force."""
        before = self._forwarded
        flipped = {
            topic: link
            for topic, link in before.items()
            if (route := routing.topics.get(topic)) is None or route.phase is Phase.SWITCHED
        }
        self._forwarded = {
            topic: route.link
            for topic, route in routing.topics.items()
            if route.phase is Phase.FORWARD or (route.phase is Phase.FENCED and topic in before)
        }
        for link in {link for topic, link in flipped.items() if self._is_under_way(topic)}:
            cluster = self._context.sources.get(link)
            if cluster is not None:
                cluster.drop(_LANES, f"a topic of link '{link}' is written on the target now")

    def _is_under_way(self, topic: str) -> bool:
        forwarder = self._context.forwarder
        transactions = forwarder.transactions
        return bool(forwarder.in_flight(topic) or (transactions is not None and transactions.blocking(topic)))
