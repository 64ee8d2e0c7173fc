"""Keeps a connection's batches in order over a change of leader on the source. Pure; one per client connection.

The gateway hides a source's leaders from clients, so they cannot do what they do elsewhere: wait for the answers of the
former leader before they send to the new one. A batch that overtakes another one reaches a broker that does not have
that one, and is refused for its sequence (see `pipeline_guard.py` for the consequences).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gateway.kafka.topic_partition import TopicPartition

Leader = tuple[str, int]
"""Link and node id of a source."""


class InPartition(Protocol):
    """A part of a request."""

    @property
    def topic(self) -> str:
        """The mirror topic."""

    @property
    def partition(self) -> int:
        """Its number."""


class LeaderOrder:
    """The parts in flight to each leader. Views are any objects, one per link, that change when a leader may have."""

    __slots__ = ("_next", "_on_ended", "_sent", "_views")

    def __init__(self) -> None:
        self._sent: dict[int, tuple[Leader, Sequence[InPartition]]] = {}
        self._views: dict[str, object] = {}
        self._next = 0
        self._on_ended: Callable[[], None] | None = None

    def sent(self, leader: Leader, parts: Sequence[InPartition]) -> int:
        """A request with these parts goes to a leader. Returns its number, for `ended`."""
        self._next += 1
        self._sent[self._next] = (leader, parts)
        return self._next

    def ended(self, request: int) -> None:
        """The request was answered, or never will be."""
        self._sent.pop(request, None)
        callback = self._on_ended
        if callback is not None:
            callback()

    def when_ended(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` whenever a request ends, until the returned function is called."""
        self._on_ended = callback
        return self._forget

    def _forget(self) -> None:
        self._on_ended = None

    def is_settled(self, link: str, view: object) -> bool:
        """The parts in flight to the link's source were found in order under this view: nothing overtakes them."""
        return self._views.get(link) is view

    def overtakes(
        self,
        plan: Mapping[Leader, Sequence[InPartition]],
        view_of: Callable[[str], object],
        leads: Callable[[Leader, str, int], bool],
    ) -> bool:
        """True when a part of the plan (parts per leader) would overtake one in flight to a former leader.

        `view_of`: a link's view; `leads`: whether the broker leads the mirror topic's partition, as far as known now.
        A link found in order is not checked again while its view is the same.
        """
        for link, node in plan:
            view = view_of(link)
            if self._views.get(link) is view:
                continue
            stale = self._stale(link, leads)
            if not stale:
                self._views[link] = view
            elif any((part.topic, part.partition) in stale for part in plan[link, node]):
                return True
        return False

    def _stale(self, link: str, leads: Callable[[Leader, str, int], bool]) -> set[TopicPartition]:
        return {
            (part.topic, part.partition)
            for leader, parts in self._sent.values()
            if leader[0] == link
            for part in parts
            if not leads(leader, part.topic, part.partition)
        }
