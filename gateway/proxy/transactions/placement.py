"""Where topics are written now, as transactions must see it: by cluster instead of by link, and with their pauses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.cutover.write_pause.rules.routing import RoutingTable, TopicRoute, WritePhase
from gateway.proxy.rules.transactional_ids import TARGET, TransactionSide
from gateway.proxy.rules.transactional_producers import PauseState, TopicPlacement
from gateway.proxy.transactions.coordinators import Refused, TransactionCoordinators
from gateway.state.promote_sets import name_of


class TopicPlacements:
    """Of all topics, as the routing says at the moment of the question."""

    def __init__(self, routing: RoutingTable, coordinators: TransactionCoordinators) -> None:
        self._routing = routing
        self._coordinators = coordinators

    def of(self, topics: Iterable[str]) -> Mapping[str, TopicPlacement]:
        """Where topics are written now.

        Raises:
            Refused: on a source that was not reached yet.
        """
        routes = self._routing.current.topics
        return {topic: self._of(routes.get(topic)) for topic in topics}

    def _of(self, route: TopicRoute | None) -> TopicPlacement:
        if route is None:
            return TopicPlacement(TARGET)
        if route.phase is WritePhase.PAUSED:
            return TopicPlacement(
                self._paused_at(route), PauseState.CLOSED if route.pause.closed else PauseState.CLOSING
            )
        return TopicPlacement(
            TARGET if route.phase is WritePhase.SWITCHED else self._coordinators.cluster_of(route.link)
        )

    def of_group(self, group: str) -> TopicPlacement | None:
        """Of a group that changes sides with topics whose writes are paused now; None of any other.

        Once one of the pauses is acknowledged no transaction takes the group in.

        Raises:
            Refused: as `of`.
        """
        routes = self._routing.current.holding(group)
        if not routes:
            return None
        closed = any(route.pause.closed for route in routes)
        return TopicPlacement(self._paused_at(routes[0]), PauseState.CLOSED if closed else PauseState.CLOSING)

    def groups_with(self, topic: str) -> frozenset[str]:
        """The groups that change sides with the topic, as a transaction names them."""
        route = self._routing.current.topics.get(topic)
        return frozenset() if route is None else frozenset(map(name_of, route.groups))

    def _paused_at(self, route: TopicRoute) -> str:
        """`counted`: it is the pause of a failback, until then the topic is written on the target."""
        return TARGET if route.counted else self._coordinators.cluster_of(route.link)

    def paused_at(self, topic: str) -> TransactionSide | None:
        """Where a topic was written until its pause; None when it is not mirrored. Raises as `of`."""
        route = self._routing.current.topics.get(topic)
        return None if route is None else TransactionSide(self._paused_at(route))

    def closing(self) -> set[str]:
        """The topics whose pause is not acknowledged yet, and the groups that change sides with them."""
        routes = self._routing.current.topics.values()
        found = [route for route in routes if route.phase is WritePhase.PAUSED and not route.pause.closed]
        return {route.mirror_topic for route in found} | {name_of(group) for route in found for group in route.groups}

    def close(self, topic: str) -> None:
        """The topic's pause is acknowledged: no transaction takes it in until the pause is over."""
        route = self._routing.current.topics.get(topic)
        if route is not None:
            route.pause.close()

    def sources_written(self) -> set[str]:
        """The sources that are written to now, for some topic; one that was not reached yet is left out."""
        routes = self._routing.current.topics.values()
        return {self._cluster_of(route) for route in routes if route.phase is not WritePhase.SWITCHED} - {TARGET}

    def source_of(self, link: str) -> str:
        """The link's source, by its cluster id. Raises as `of`."""
        return self._coordinators.cluster_of(link)

    def names(self, side: TransactionSide, topics: Iterable[str]) -> list[str]:
        """Topics of a place by the names that clients of the gateway use."""
        if side.cluster == TARGET:
            return list(topics)
        routes = self._routing.current.topics.values()
        mirrored = {r.source_topic: r.mirror_topic for r in routes if self._cluster_of(r) == side.cluster}
        return [mirrored.get(topic, topic) for topic in topics]

    def failback_epoch(self) -> int:
        """How often the writes of any topic have failed back, all of them together.

        Not the highest one of a topic: a topic that fails back after another one did must be met under a producer id
        that it has not seen on either cluster, and before its own failback it has seen the other one's. It never falls,
        whatever is deleted: a producer would be met again where it has left its sequence.
        """
        return self._routing.current.failbacks

    def _cluster_of(self, route: TopicRoute) -> str:
        """The route's source; TARGET, which no source is, when it was not reached yet."""
        try:
            return self._coordinators.cluster_of(route.link)
        except Refused:
            return TARGET
