"""Where topics are written now, as transactions must see it: by cluster instead of by link, and with their fences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.domain.routing import Phase, Routing, RoutingTable, TopicRoute
from gateway.domain.transactional_ids import TARGET, Place
from gateway.domain.transactional_producers import Fence, Standing
from gateway.proxy.places import Places, Refused


class Standings:
    """Of all topics, as the routing says at the moment of the question."""

    def __init__(self, routing: RoutingTable, places: Places) -> None:
        self._routing = routing
        self._places = places
        self._closed: set[str] = set()  # fenced topics whose fence was acknowledged
        routing.subscribe(self._routing_changed)

    def of(self, topics: Iterable[str]) -> Mapping[str, Standing]:
        """Where topics are written now.

        Raises:
            Refused: on a source that was not reached yet.
        """
        routes = self._routing.current.topics
        return {topic: self._of(routes.get(topic)) for topic in topics}

    def _of(self, route: TopicRoute | None) -> Standing:
        if route is None:
            return Standing(TARGET)
        if route.phase is Phase.FENCED:
            fence = Fence.CLOSED if route.mirror_topic in self._closed else Fence.CLOSING
            return Standing(self._fenced_at(route), fence)
        return Standing(TARGET if route.phase is Phase.SWITCHED else self._places.cluster_of(route.link))

    def _fenced_at(self, route: TopicRoute) -> str:
        """`counted`: it is the fence of a way home, until then the topic is written on the target."""
        return TARGET if route.counted else self._places.cluster_of(route.link)

    def fenced_at(self, topic: str) -> Place | None:
        """Where a topic was written until its fence; None when it is not mirrored. Raises as `of`."""
        route = self._routing.current.topics.get(topic)
        return None if route is None else Place(self._fenced_at(route))

    def closing(self) -> set[str]:
        """The topics whose fence is not acknowledged yet."""
        routes = self._routing.current.topics.values()
        return {r.mirror_topic for r in routes if r.phase is Phase.FENCED and r.mirror_topic not in self._closed}

    def close(self, topic: str) -> None:
        """The topic's fence is acknowledged: no transaction takes it in until the fence has ended."""
        self._closed.add(topic)

    def sources_written(self) -> set[str]:
        """The sources that are written to now, for some topic; one that was not reached yet is left out."""
        routes = self._routing.current.topics.values()
        return {self._cluster_of(route) for route in routes if route.phase is not Phase.SWITCHED} - {TARGET}

    def sources(self) -> set[str]:
        """The sources of all mirrored topics."""
        return {self._cluster_of(route) for route in self._routing.current.topics.values()} - {TARGET}

    def names(self, place: Place, topics: Iterable[str]) -> list[str]:
        """Topics of a place by the names that clients of the gateway use."""
        if place.cluster == TARGET:
            return list(topics)
        routes = self._routing.current.topics.values()
        mirrored = {r.source_topic: r.mirror_topic for r in routes if self._cluster_of(r) == place.cluster}
        return [mirrored.get(topic, topic) for topic in topics]

    def generation(self) -> int:
        """How often the writes of any topic have gone home, all of them together.

        Not the highest one of a topic: a topic that goes home after another one did must be met under a producer id
        that it has not seen on either cluster, and before its own way home it has seen the other one's.
        """
        return sum(route.generation for route in self._routing.current.topics.values())

    def _cluster_of(self, route: TopicRoute) -> str:
        """The route's source; TARGET, which no source is, when it was not reached yet."""
        try:
            return self._places.cluster_of(route.link)
        except Refused:
            return TARGET

    def _routing_changed(self, routing: Routing) -> None:
        self._closed = {
            topic for topic in self._closed if topic in routing.topics and routing.topics[topic].phase is Phase.FENCED
        }
