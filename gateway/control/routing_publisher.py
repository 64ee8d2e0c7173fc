"""Keeps the routing table true to the state store, plus the two things that no record says: fences of a
running promote, and topics whose create is under way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from gateway.control.store import StateStore
from gateway.domain.records import MirrorRecord
from gateway.domain.routing import RoutingTable
from gateway.domain.routing_build import routing_from


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return int(time.time() * 1000)


class RoutingPublisher:
    """Publishes a snapshot after each change of the store, a fence or a reservation; only if it differs.

    Attributes:
        on_unfence: called with the mirror topics whose hold has ended, after the snapshot.
    """

    def __init__(self, store: StateStore, table: RoutingTable, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._store = store
        self._table = table
        self._now_ms = now_ms
        self._fenced: set[str] = set()
        self._settled: set[str] = set()
        self._reserved: dict[str, MirrorRecord] = {}
        self.on_unfence: list[Callable[[Iterable[str]], None]] = []
        store.subscribe(self.refresh)

    @property
    def fenced(self) -> frozenset[str]:
        """Mirror topics whose writes are held now."""
        return frozenset(self._fenced)

    def fence(self, topics: Iterable[str]) -> None:
        """Hold writes to these mirror topics (phase FENCED), at once."""
        self._fenced.update(topics)
        self.refresh()

    def unfence(self, topics: Iterable[str]) -> None:
        """End the hold: what the topics' records say is in force again."""
        names = tuple(topics)
        self._fenced.difference_update(names)
        self.refresh()
        for callback in tuple(self.on_unfence):
            callback(names)

    def settle(self, topic: str) -> None:
        """The topic is padded: it may be read, even if the store cannot be told now."""
        self._settled.add(topic)
        self.refresh()

    def reserve(self, mirror: MirrorRecord) -> None:
        """Route a topic whose create is under way, before it exists on the target.

        A client that finds it there between its creation and its record must not write to it.
        """
        self._reserved[mirror.mirror_topic] = mirror
        self.refresh()

    def release(self, topic: str) -> None:
        """End a reservation: the record is stored, or the create has failed."""
        self._reserved.pop(topic, None)
        self.refresh()

    def forget(self, topic: str) -> None:
        """The mirror was deleted."""
        self._fenced.discard(topic)
        self._settled.discard(topic)
        self.refresh()

    def refresh(self) -> None:
        """Build the snapshot from what is known now, and publish it if it is a new one."""
        mirrors = {**self._reserved, **{mirror.mirror_topic: mirror for mirror in self._store.mirrors.values()}}
        routing = routing_from(
            self._store.links,
            mirrors.values(),
            fenced=self._fenced,
            settled=self._settled,
            now_ms=self._now_ms(),
        )
        if routing != self._table.current:
            self._table.publish(routing)
