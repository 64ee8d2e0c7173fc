"""Keeps the routing table true to the state store, plus the two things that no record says: fences, and topics whose
create is under way.

Writes are held by this gateway's own promotes and failovers while it leads (`fence`), and by the word of another leader
(`hold`); whose hold is whose, and what a term leaves behind: `domain/write_holds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gateway.control.store import StateStore
from gateway.domain.flips_seen import FlipsSeen
from gateway.domain.records import MirrorRecord
from gateway.domain.routing import RoutingTable
from gateway.domain.routing_build import routing_from
from gateway.domain.write_holds import Hold, WriteHolds
from gateway.net.host import MACHINE


class RoutingPublisher:
    """Publishes a snapshot after each change of the store, a fence or a reservation; only if it differs.

    Attributes:
        on_unfence: called with the mirror topics whose hold has ended, after the snapshot.
    """

    def __init__(self, store: StateStore, table: RoutingTable, clock: Callable[[], float] = MACHINE.monotonic) -> None:
        self._store = store
        self._table = table
        self._clock = clock
        self._flips = FlipsSeen()
        self._holds = WriteHolds()
        self._settled: set[str] = set()
        self._reserved: dict[str, MirrorRecord] = {}
        self.on_unfence: list[Callable[[Iterable[str]], None]] = []
        store.subscribe(self.refresh)

    @property
    def fenced(self) -> frozenset[str]:
        """Mirror topics whose writes are held now."""
        return self._holds.topics

    @property
    def own_fences(self) -> Mapping[str, int]:
        """Those of this gateway's own operations, in this term: mirror topic -> epoch."""
        return self._holds.own

    def next_epoch(self, mirror: MirrorRecord) -> int:
        """For the next operation that holds this topic's writes."""
        return self._holds.next_epoch(mirror.mirror_topic, mirror.fence_epoch)

    def fence(self, holds: Iterable[Hold]) -> None:
        """This gateway leads, and holds writes to these mirror topics (phase FENCED), at once."""
        for hold in holds:
            self._holds.begin(hold)
        self.refresh()

    def unfence(self, holds: Iterable[Hold]) -> None:
        """End these holds: what the topics' records say is in force again, unless another operation holds them."""
        over = tuple(holds)
        for hold in over:
            self._holds.end(hold)
        self._ended(frozenset(hold.topic for hold in over))

    def hold(self, holds: Iterable[Hold]) -> None:
        """The leader wants writes to these held."""
        for hold in holds:
            self._holds.commanded(hold)
        self.refresh()

    def let_go(self, topics: Iterable[str]) -> None:
        """The end of `hold`; an own fence goes on."""
        names = frozenset(topics)
        for name in names:
            self._holds.command_over(name)
        self._ended(names)

    def term_over(self) -> None:
        """This gateway leads no more: its fences stay, but they are nobody's."""
        self._holds.term_over()

    def decided(self) -> None:
        """All that earlier terms of this gateway wrote is read: their fences end."""
        self._ended(self._holds.decided())

    def _ended(self, names: frozenset[str]) -> None:
        self.refresh()
        if over := names - self.fenced:
            for callback in tuple(self.on_unfence):
                callback(over)

    def retried_s(self, topic: str) -> float:
        """For how many seconds a producer may still retry a batch from before the topic's last flip; 0: none does."""
        return self._flips.left_s(topic, self._clock())

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
        self._holds.forget([topic])
        self._settled.discard(topic)
        self.refresh()

    def refresh(self) -> None:
        """Build the snapshot from what is known now, and publish it if it is a new one."""
        mirrors = {**self._reserved, **{mirror.mirror_topic: mirror for mirror in self._store.mirrors.values()}}
        now = self._clock()
        self._flips.saw(mirrors.values(), now)
        routing = routing_from(
            self._store.links,
            mirrors.values(),
            fenced=self.fenced,
            settled=self._settled,
            retried=self._flips.retried(now),
        )
        if routing != self._table.current:
            self._table.publish(routing)
