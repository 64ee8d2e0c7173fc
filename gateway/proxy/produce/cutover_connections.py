"""Drops the connections to a source that still carry writes when their topic cuts over.

A promote cuts over when no write is in flight. A failover does not wait: the source may be dead. If it is only slow,
its answer would come after the cutover, for records that stay behind there; to relay it as a success would be wrong. So
the lanes to that source are closed, with the bytes that their sockets have not sent yet: once the failover has waited
long enough, before it reads the source's ends for the last time, so that it counts every acknowledged record (`drop`);
and at the cutover, before held writes are released to the target. The clients' connections close with an unknown
outcome, and their retries go to the target.

Answers that wait for the mirror (`ack: both`) are given up, too: records that it has not copied stay behind. They are
answered as timed out, before held writes are released.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gateway.cutover.write_pause.rules.routing import Routing, WritePhase
from gateway.kafka.cluster import Cluster
from gateway.mirror.rules.progress import MirrorProgress
from gateway.proxy.produce.forwarder import Forwarder

_LANES = ("produce", "transactions")


class CutoverLanes:
    """`routing_changed` subscribes to the routing table, which releases held writes after it."""

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
        """Stop waiting for answers to the topic's writes."""
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
