"""Keeps the routing table true to the state store, plus the two things that no record says: fences, and topics whose
create is under way.

Writes are held by this gateway's own promotes and failovers while it leads (`fence`), and by the word of another leader
(`hold`). A term that ends leaves its fences behind: until the state is read up to the next leader's assignment, or the
next term of this gateway has begun, nobody knows whether what they were for has been written (`term_over`, `decided`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gateway.control.store import StateStore
from gateway.domain.records import MirrorRecord
from gateway.domain.routing import RoutingTable
from gateway.domain.routing_build import routing_from
from gateway.net.host import wall_clock_ms


class RoutingPublisher:
    """Publishes a snapshot after each change of the store, a fence or a reservation; only if it differs.

    Attributes:
        on_unfence: called with the mirror topics whose hold has ended, after the snapshot.
    """

    def __init__(self, store: StateStore, table: RoutingTable, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._store = store
        self._table = table
        self._now_ms = now_ms
        self._own: dict[str, int] = {}  # mirror topic -> epoch
        self._left: set[str] = set()
        self._held: set[str] = set()
        self._settled: set[str] = set()
        self._reserved: dict[str, MirrorRecord] = {}
        self.on_unfence: list[Callable[[Iterable[str]], None]] = []
        store.subscribe(self.refresh)

    @property
    def fenced(self) -> frozenset[str]:
        """Mirror topics whose writes are held now."""
        return frozenset(self._own) | self._left | self._held

    @property
    def own_fences(self) -> Mapping[str, int]:
        """Those of this gateway's own operations, in this term: mirror topic -> epoch."""
        return dict(self._own)

    def fence(self, epochs: Mapping[str, int]) -> None:
        """This gateway leads, and holds writes to these mirror topics (phase FENCED), at once: topic -> epoch."""
        self._own.update(epochs)
        self.refresh()

    def unfence(self, topics: Iterable[str]) -> None:
        """End the hold: what the topics' records say is in force again. The leader's word, so whoever began it."""
        names = frozenset(topics)
        for name in names:
            self._own.pop(name, None)
        self._left -= names
        self._held -= names
        self._ended(names)

    def hold(self, topics: Iterable[str]) -> None:
        """The leader wants writes to these held."""
        self._held.update(topics)
        self.refresh()

    def let_go(self, topics: Iterable[str]) -> None:
        """The end of `hold`; an own fence goes on."""
        names = frozenset(topics)
        self._held -= names
        self._ended(names)

    def term_over(self) -> None:
        """This gateway leads no more: its fences stay, but they are nobody's."""
        self._left |= self._own.keys()
        self._own.clear()

    def decided(self) -> None:
        """All that earlier terms of this gateway wrote is read: their fences end."""
        names, self._left = frozenset(self._left), set()
        self._ended(names)

    def _ended(self, names: frozenset[str]) -> None:
        self.refresh()
        if over := names - self.fenced:
            for callback in tuple(self.on_unfence):
                callback(over)

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
        self._own.pop(topic, None)
        self._left.discard(topic)
        self._held.discard(topic)
        self._settled.discard(topic)
        self.refresh()

    def refresh(self) -> None:
        """Build the snapshot from what is known now, and publish it if it is a new one."""
        mirrors = {**self._reserved, **{mirror.mirror_topic: mirror for mirror in self._store.mirrors.values()}}
        routing = routing_from(
            self._store.links,
            mirrors.values(),
            fenced=self.fenced,
            settled=self._settled,
            now_ms=self._now_ms(),
        )
        if routing != self._table.current:
            self._table.publish(routing)
