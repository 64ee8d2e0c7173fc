"""What is in flight to a source when its topic cuts over is not waited for any more: its connections are dropped.

A promote cuts over when nothing is in flight. A failover does not wait: the source may be dead. If it is only slow, its
answer would come after the cutover, for records that stay behind there; relayed as a success it would be a lie. So the
lanes to that source are closed, with what their sockets have not sent yet: when the failover has waited for long
enough, before it reads for the last time where the source ends, so that it counts all that was acknowledged (`drop`);
and at the cutover, before writes that were held are let go to the target. The clients' connections close with an
unknown outcome, and their retries go to the target.

Nor is the mirror waited for then (`ack: both`): what it has not copied stays behind. It is answered as what takes too
long, before writes that were held are let go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gateway.cutover.write_pause.rules.routing import Routing, WritePhase
from gateway.kafka.cluster import Cluster
from gateway.mirror.rules.progress import MirrorProgress
from gateway.proxy.produce.forwarder import Forwarder

_LANES = ("produce", "transactions")


class CutoverLanes:
    """`routing_changed` subscribes to the routing table, which releases what waited after that."""

    def __init__(self, *, sources: Mapping[str, Cluster], forwarder: Forwarder, progress: MirrorProgress) -> None:
        self._sources = sources
        self._progress = progress
        self._forwarder = forwarder
        self._forwarded: dict[str, str] = {}  # mirror topic -> link, of those written to their source until now

    def routing_changed(self, routing: Routing, changed: Collection[str]) -> None:
        """A new snapshot is in force."""
        cut_over: dict[str, str] = {}
        for topic in changed:
            route, link = routing.topics.get(topic), self._forwarded.get(topic)
            if route is not None and route.phase is WritePhase.FORWARD:
                self._forwarded[topic] = route.link
            elif link is not None and (route is None or route.phase is WritePhase.SWITCHED):
                cut_over[topic] = self._forwarded.pop(topic)
            elif link is not None and route is not None:
                self._forwarded[topic] = route.link
        for link in {link for topic, link in cut_over.items() if self._is_under_way(topic)}:
            self._drop(link, f"a topic of link '{link}' is written on the target now")
        for topic in cut_over:
            self._forwarder.cut_over(topic)
            route = routing.topics.get(topic)
            if route is None or not route.goes_on:  # a promote has left nothing behind
                self._progress.end_waits(topic)

    def drop(self, topic: str) -> None:
        """Wait for no answer to the topic's writes any more."""
        link = self._forwarded.get(topic)
        if link is not None and self._is_under_way(topic):
            self._drop(link, f"mirror topic '{topic}' is failed over, and its source did not answer in time")

    def _drop(self, link: str, why: str) -> None:
        cluster = self._sources.get(link)
        if cluster is not None:
            cluster.drop(_LANES, why)

    def _is_under_way(self, topic: str) -> bool:
        forwarder = self._forwarder
        transactions = forwarder.transactions
        return bool(forwarder.in_flight(topic) or (transactions is not None and transactions.blocking(topic)))
