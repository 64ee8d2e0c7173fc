"""Where a Produce goes: an immutable snapshot per topic, and the holder that publishes it.

The proxy reads `RoutingTable.current` once per request; the control plane replaces it. One event loop, so a
swap is atomic for every handler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.domain.records import ProducerEntry


class Phase(StrEnum):
    """What the gateway does with writes to a mirrored topic."""

    FORWARD = "forward"  # to the source leader
    FENCED = "fenced"  # held: a promote is in progress
    SWITCHED = "switched"  # to the target; retries of mirrored batches are answered from `producers`


class Ack(StrEnum):
    """When a forwarded Produce is answered."""

    SOURCE = "source"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRoute:
    """How one mirrored topic is served. Topics without a route go to the target untouched.

    `settled` is False while partitions are being padded: nothing of the topic may be read then.
    `producers[p]`: the last batches of each producer from before the last flip; empty once no client retries them.
    `generation`: see `domain/producer_ids.py`. `counted`: what is in flight to the target is counted as what is in
    flight to a source, so that a fence can wait for it: the topic is mirrored back.
    """

    link: str
    mirror_topic: str
    source_topic: str
    phase: Phase
    ack: Ack = Ack.SOURCE
    fence_epoch: int = 0
    settled: bool = True
    producers: tuple[tuple[ProducerEntry, ...], ...] = ()
    generation: int = 0
    counted: bool = False

    @property
    def passes(self) -> bool:
        """True when a Produce of the topic needs nothing but to be passed on to the target."""
        return self.phase is Phase.SWITCHED and not (any(self.producers) or self.generation or self.counted)


@dataclass(frozen=True, slots=True)
class Routing:
    """All routes, by mirror topic name (the name clients of the gateway use).

    The flags are worked out once per snapshot, since they are asked for at every request:
    `intercepts_produce`: some Produce may need more than passing through; `unsettled`: some mirror topic is still
    being padded. `group_prefixes`: source cluster id -> what mirror groups have before their names there.
    """

    topics: Mapping[str, TopicRoute] = field(default_factory=dict)
    topic_ids: Mapping[bytes, str] = field(default_factory=dict)  # target topic id (16 bytes) -> mirror topic
    group_prefixes: Mapping[str, str] = field(default_factory=dict)
    intercepts_produce: bool = field(init=False)
    unsettled: bool = field(init=False)

    def __post_init__(self) -> None:
        routes = self.topics.values()
        produce = any(not r.passes for r in routes)
        object.__setattr__(self, "intercepts_produce", produce)
        object.__setattr__(self, "unsettled", any(not r.settled for r in routes))

    def passes(self, topic: str) -> bool:
        """True when a Produce of this topic alone needs nothing but to be passed on to the target."""
        route = self.topics.get(topic)
        return route is None or route.passes

    def group_at(self, cluster_id: str, group: str) -> str:
        """A group's name on the source with this cluster id, which is "" for the target."""
        return group.removeprefix(self.group_prefixes.get(cluster_id, ""))


class RoutingTable:
    """Holds the current Routing; `subscribe` is called with each new one, in order."""

    __slots__ = ("_current", "_subscribers")

    def __init__(self, routing: Routing | None = None) -> None:
        self._current = routing or Routing()
        self._subscribers: list[Callable[[Routing], None]] = []

    @property
    def current(self) -> Routing:
        """The snapshot in force."""
        return self._current

    def publish(self, routing: Routing) -> None:
        """Put a new snapshot in force and tell the subscribers."""
        self._current = routing
        for subscriber in tuple(self._subscribers):
            subscriber(routing)

    def subscribe(self, subscriber: Callable[[Routing], None]) -> None:
        """Call `subscriber` with every later snapshot."""
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Callable[[Routing], None]) -> None:
        """End a `subscribe`."""
        self._subscribers.remove(subscriber)
