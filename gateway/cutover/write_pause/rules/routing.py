"""How mirrored topics are served: a snapshot of their routes, and the holder that publishes it.

The proxy reads `RoutingTable.current` once per request; the control plane replaces it. There is one event loop, so a
swap is atomic for every handler. The route's `pause` decides where a topic's writes go now (`write_pause.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.cutover.write_pause.rules.write_pause import WritePause, WritePhase
from gateway.state.ack import Ack
from gateway.state.producer_entries import ProducerEntry

__all__ = ["Ack", "Routing", "RoutingTable", "TopicRoute", "WritePhase", "moved_with", "routing_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRoute:
    """How one mirrored topic is served. Topics without a route go to the target untouched.

    `readable` is False while partitions are being padded: clients may not read the topic then.
    `producers[p]`: the last batches of each producer from before the last cutover; empty once no client retries them.
    `pause`: where its writes go; the same object in every snapshot. `failback_epoch`: see `state/producer_ids.py`.
    `counted`: the topic is mirrored back, so its writes in flight to the target are counted like those to a source, and
    a pause can wait for them. `goes_on`: the last cutover left no acknowledged record behind, so a producer's next
    batch follows its last one in `producers`; False after a failover. `by_clients`: clients may write it on the source.
    `groups`: those that change sides with the topic, and are held while its writes are paused.

    A topic whose mirror was deleted after a failback has a route, too: its `link` is '', it is written on the target,
    and its producers stay in its failback epoch.
    """

    link: str
    mirror_topic: str
    source_topic: str
    pause: WritePause
    ack: Ack = Ack.SOURCE
    readable: bool = True
    producers: tuple[Sequence[ProducerEntry], ...] = ()
    failback_epoch: int = 0
    counted: bool = False
    goes_on: bool = True
    by_clients: bool = True
    groups: tuple[str, ...] = ()

    @property
    def phase(self) -> WritePhase:
        """Where writes go now, if the lease is valid."""
        return self.pause.phase

    @property
    def is_mirrored(self) -> bool:
        """False for a topic whose mirror was deleted."""
        return bool(self.link)

    @property
    def passes(self) -> bool:
        """True when a Produce to the topic only needs to be passed on to the target."""
        return self.pause.phase is WritePhase.SWITCHED and not (
            any(self.producers) or self.failback_epoch or self.counted
        )

    @property
    def is_plain(self) -> bool:
        """True when a Produce goes to the source unchanged: under the same name, without any lookup."""
        return (
            self.source_topic == self.mirror_topic and self.by_clients and not (self.producers or self.failback_epoch)
        )


@dataclass(frozen=True, slots=True)
class Routing:
    """All routes, by mirror topic name (the name clients of the gateway use).

    The flags exist because every request needs them. `intercepts_produce`: some Produce may need more than passing
    through; `ends_repeated`: a client may still send the end of a transaction from before a cutover; `unreadable`: some
    mirror topic is still being padded. `group_prefixes`: source cluster id -> the prefix of its mirror groups' names.
    `moved_with`: group -> the mirror topics with which it changes sides. `failbacks`: how often the writes of all
    topics together have failed back, including topics no longer mirrored: it never falls. `unmirrored`: how many routes
    are of topics whose mirrors were deleted.
    """

    topics: Mapping[str, TopicRoute]
    topic_ids: Mapping[bytes, str]  # target topic id (16 bytes) -> mirror topic
    group_prefixes: Mapping[str, str]
    intercepts_produce: bool
    unreadable: bool
    moved_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ends_repeated: bool = False
    failbacks: int = 0
    unmirrored: int = 0

    @property
    def mirrors(self) -> bool:
        """Some topic has a mirror."""
        return len(self.topics) > self.unmirrored

    def passes(self, topic: str) -> bool:
        """True when a Produce to this topic alone only needs to be passed on to the target."""
        route = self.topics.get(topic)
        return route is None or route.passes

    def holding(self, group: str) -> tuple[TopicRoute, ...]:
        """The routes of the topics whose write pause holds the group here now; none: it is not held."""
        routes = (self.topics[topic] for topic in self.moved_with.get(group, ()) if topic in self.topics)
        return tuple(route for route in routes if route.phase is WritePhase.PAUSED)

    def group_at(self, cluster_id: str, group: str) -> str:
        """A mirror group's name on the source with this cluster id; "" for the target."""
        return group.removeprefix(self.group_prefixes.get(cluster_id, ""))


def routing_of(
    topics: Mapping[str, TopicRoute] | None = None,
    topic_ids: Mapping[bytes, str] | None = None,
    group_prefixes: Mapping[str, str] | None = None,
) -> Routing:
    """The snapshot of these routes. Visits every route."""
    routes = (topics or {}).values()
    return Routing(
        topics or {},
        topic_ids or {},
        group_prefixes or {},
        intercepts_produce=any(not route.passes for route in routes),
        unreadable=any(not route.readable for route in routes),
        moved_with=moved_with({route.mirror_topic: route.groups for route in routes}),
        failbacks=sum(route.failback_epoch for route in routes),
        unmirrored=sum(not route.is_mirrored for route in routes),
    )


def moved_with(groups: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Group -> mirror topics, from mirror topic -> groups."""
    found: dict[str, list[str]] = {}
    for topic, names in groups.items():
        for group in names:
            found.setdefault(group, []).append(topic)
    return {group: tuple(topics) for group, topics in found.items()}


Subscriber = Callable[[Routing, Collection[str]], None]
"""Receives a new snapshot, and the topics whose routes or phases may have changed since the last one, or are gone."""


class RoutingTable:
    """Holds the current Routing, and passes each new one to its subscribers, in order.

    `current`: the snapshot in force; only `publish` replaces it.
    """

    __slots__ = ("_new", "_subscribers", "current")

    def __init__(self, routing: Routing | None = None) -> None:
        self.current = routing or routing_of()
        self._subscribers: list[Subscriber] = []
        self._new: list[Subscriber] = []

    def publish(self, routing: Routing, changed: Collection[str] | None = None) -> None:
        """Put a new snapshot in force, notify the subscribers, and then release the writes whose pause is over.

        `changed`: the topics whose routes or phases have changed, or are gone; None: any may be.
        """
        before, self.current = self.current, routing
        if changed is None:
            changed = before.topics.keys() | routing.topics.keys()
        new, self._new = self._new, []
        for subscriber in tuple(self._subscribers):
            subscriber(routing, changed if subscriber not in new else before.topics.keys() | routing.topics.keys())
        for topic in changed:
            route, now = before.topics.get(topic), routing.topics.get(topic)
            if route is None:
                continue
            if now is None or now.pause is not route.pause or now.phase is not WritePhase.PAUSED:
                route.pause.let_go()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Notify `subscriber` of every later snapshot: of all topics at the first one, then of changed ones."""
        self._subscribers.append(subscriber)
        self._new.append(subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """End a `subscribe`."""
        self._subscribers.remove(subscriber)
