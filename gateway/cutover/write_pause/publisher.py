"""Keeps the routing table true to the state store, plus the two things that no record says: write pauses, and topics
whose create is under way.

`pauses` is this gateway's, whether it leads or follows; where a write goes is asked of it alone: see
`cutover/write_pause/rules/write_pause.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gateway.cutover.write_pause.rules.cutovers_seen import CutoversSeen
from gateway.cutover.write_pause.rules.routing import RoutingTable, WritePhase
from gateway.cutover.write_pause.rules.routing_build import RouteBuilder
from gateway.cutover.write_pause.rules.write_pause import Pause, Recorded, WritePauses, recorded
from gateway.state.records import MirrorRecord
from gateway.state.store import StateStore
from gateway.transport.host import MACHINE


class RoutingPublisher:
    """Publishes a snapshot after each change of the store, a pause or a reservation; only if it differs.

    Attributes:
        pauses: where the writes of each mirror topic go here.
        on_resumed: called with the pauses that a command has ended, after the snapshot; not with those that a record or
            an assignment has ended.
    """

    def __init__(self, store: StateStore, table: RoutingTable, clock: Callable[[], float] = MACHINE.monotonic) -> None:
        self._store = store
        self._table = table
        self._clock = clock
        self._cutovers = CutoversSeen()
        self._readable: set[str] = set()
        self._reserved: dict[str, MirrorRecord] = {}
        self._phases: Mapping[str, WritePhase] = {}  # as published
        self._routes = RouteBuilder()
        self._retried: frozenset[str] = frozenset()
        self._recorded: dict[str, tuple[MirrorRecord, bool, Recorded]] = {}
        self.pauses = WritePauses()
        self.on_resumed: list[Callable[[Sequence[Pause]], None]] = []
        store.subscribe(self.refresh)

    def next_epoch(self, mirror: MirrorRecord) -> int:
        """For the next operation that pauses this topic's writes."""
        known = self.pauses.get(mirror.mirror_topic)
        return max(mirror.cutover.pause_epoch + 1, known.next_epoch if known is not None else 0)

    def pause(self, pauses: Iterable[Pause]) -> bool:
        """The leader, this gateway or another one, pauses the writes to these; in one snapshot.

        False when one of them comes too late, or its topic is not known here.
        """
        wanted = tuple(pauses)
        begun = [self.pauses.pause(pause) for pause in wanted]
        if any(self._is_news(pause.topic) for pause in wanted):  # each of a set is paused again when it is asked for
            self.refresh()
        return all(begun)

    def _is_news(self, topic: str) -> bool:
        known = self.pauses.get(topic)
        return known is not None and known.phase is not self._phases.get(topic)

    def resume(self, pauses: Iterable[Pause]) -> None:
        """Nothing came of these: what the topics' records say is in force again, unless another pause is."""
        ended = [pause for pause in pauses if self.pauses.resume(pause)]
        self.refresh()
        if ended:
            for callback in tuple(self.on_resumed):
                callback(ended)

    def assigned(self, term: int, named: Mapping[str, int]) -> None:
        """An assignment of a term's leader is read, and the state up to it; or a term of this gateway begins.

        `named`: the pauses in force, mirror topic -> epoch.
        """
        self.pauses.assigned(term, named)
        self.refresh()

    def retried_s(self, topic: str) -> float:
        """For how many seconds a producer may still retry a batch from before the topic's last cutover; 0: none
        does."""
        return self._cutovers.left_s(topic, self._clock())

    def make_readable(self, topic: str) -> None:
        """The topic is padded: it may be read, even if the store cannot be told now."""
        if topic not in self._readable:
            self._readable.add(topic)
            self.refresh()

    def reserve(self, mirror: MirrorRecord) -> None:
        """Route a topic whose create is under way, before it exists on the target.

        A client that finds it there between its creation and its record must not write to it.
        """
        self._reserved[mirror.mirror_topic] = mirror
        self.refresh()

    def release(self, topic: str) -> None:
        """End a reservation: the record is stored, or the create has failed."""
        reserved = self._reserved.pop(topic, None)
        if reserved is not None and (reserved.link, topic) not in self._store.mirrors:  # else its record is the route
            self.refresh()

    def forget(self, topic: str) -> None:
        """The mirror was deleted."""
        self._readable.discard(topic)
        self.refresh()

    def look(self) -> None:
        """Once in a while: drops the producer tables of cutovers that are long ago."""
        if self._cutovers.retried(self._clock()) != self._retried:
            self.refresh()

    def _found(self, topic: str, mirror: MirrorRecord, retried: bool) -> tuple[MirrorRecord, bool, Recorded]:
        known = self._recorded.get(topic)
        if known is not None and known[0] is mirror and known[1] == retried:
            return known
        return mirror, retried, recorded(mirror, retried=retried)

    def refresh(self) -> None:
        """Build the snapshot from what is known now, and publish it if it is a new one."""
        mirrors = {**self._reserved, **{mirror.mirror_topic: mirror for mirror in self._store.mirrors.values()}}
        now = self._clock()
        self._cutovers.saw(mirrors.values(), now)
        self._retried = retried = self._cutovers.retried(now)
        self._recorded = {topic: self._found(topic, mirror, topic in retried) for topic, mirror in mirrors.items()}
        self.pauses.records({topic: found for topic, (_, _, found) in self._recorded.items()})
        routing = self._routes.build(
            self._store.links, mirrors.values(), self.pauses, readable=self._readable, retried=retried
        )
        phases = {topic: route.phase for topic, route in routing.topics.items()}
        if routing != self._table.current or phases != self._phases:
            self._phases = phases
            self._table.publish(routing)
