"""Keeps the routing table consistent with the state store, and with two facts that no record has: write pauses, and
topics that are being created.

`pauses` is this gateway's, whether it leads or follows, and alone decides where a write goes: see
`cutover/write_pause/rules/write_pause.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gateway.cutover.write_pause.rules.cutovers_seen import CutoversSeen
from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.cutover.write_pause.rules.routing_build import Routes, prefixes
from gateway.cutover.write_pause.rules.write_pause import OF_NO_MIRROR, Pause, Recorded, WritePauses, recorded
from gateway.state.failback_records import FailbackEpochRecord
from gateway.state.promote_sets import groups_of
from gateway.state.records import MirrorRecord
from gateway.state.store import StateStore
from gateway.transport.host import MACHINE


class RoutingPublisher:
    """Publishes a snapshot after each change of the store, a pause or a reservation, if it differs.

    A change costs the work for the changed topics, and a copy of the table.

    Attributes:
        pauses: where the writes of each mirror topic go here.
        on_resumed: called after the snapshot, with the pauses that a command has ended; not with those that a record or
            an assignment has ended.
    """

    def __init__(self, store: StateStore, table: RoutingTable, clock: Callable[[], float] = MACHINE.monotonic) -> None:
        self._store = store
        self._changes = store.mirror_changes()
        self._table = table
        self._clock = clock
        self._cutovers = CutoversSeen()
        self._readable: dict[str, int] = {}  # the mirror id of the readable copy
        self._reserved: dict[str, MirrorRecord] = {}
        self._routes = Routes()
        self._recent: set[str] = set()  # topics whose routes say that they cut over a short time ago
        self._recorded: dict[str, tuple[MirrorRecord, bool, Recorded]] = {}
        self.pauses = WritePauses()
        self.on_resumed: list[Callable[[Sequence[Pause]], None]] = []
        store.subscribe(self.refresh)

    def next_epoch(self, mirror: MirrorRecord) -> int:
        """The pause epoch of the next operation that pauses this topic's writes."""
        known = self.pauses.get(mirror.mirror_topic)
        return max(mirror.cutover.pause_epoch + 1, known.next_epoch if known is not None else 0)

    def pause(self, pauses: Iterable[Pause]) -> bool:
        """Begin these pauses of the leader, this gateway or another one, in one snapshot.

        False when one of them came too late, or its topic is unknown here.
        """
        wanted = tuple(pauses)
        begun = [self.pauses.pause(pause) for pause in wanted]
        if any(self._is_news(pause.topic) for pause in wanted):  # a repeated command changes nothing
            self.refresh(pause.topic for pause in wanted)
        return all(begun)

    def _is_news(self, topic: str) -> bool:
        known = self.pauses.get(topic)
        return known is not None and known.phase is not self._routes.phase(topic)

    def resume(self, pauses: Iterable[Pause]) -> None:
        """End these pauses, whose operations were given up: the records decide again, unless another pause is in
        force."""
        named = tuple(pauses)
        ended = [pause for pause in named if self.pauses.resume(pause)]
        self.refresh(pause.topic for pause in named)
        if ended:
            for callback in tuple(self.on_resumed):
                callback(ended)

    def assigned(self, term: int, named: Mapping[str, int]) -> None:
        """This gateway has read an assignment of a term's leader, and the state up to it; or begins a term of its own.

        `named`: the pauses in force, mirror topic -> epoch.
        """
        self.pauses.assigned(term, named)
        self.refresh(self.pauses)

    def groups_of(self, pause: Pause) -> frozenset[str]:
        """The groups held here with the topic, by the record of the pause's epoch; none before that was read."""
        mirror = self._store.mirror_of(pause.topic)
        if mirror is None or mirror.cutover.pause_epoch != pause.epoch:
            return frozenset()
        return frozenset(groups_of(mirror))

    def retried_s(self, topic: str) -> float:
        """How many seconds a producer may still retry a batch from before the topic's last cutover; 0: no longer."""
        return self._cutovers.left_s(topic, self._clock())

    def make_readable(self, topic: str) -> None:
        """The topic is padded: clients may read it, even if that cannot be stored now. Does not hold for a recreated
        copy."""
        mirror = self._store.mirror_of(topic)
        if mirror is not None and self._readable.get(topic) != mirror.mirror_id:
            self._readable[topic] = mirror.mirror_id
            self.refresh([topic])

    def reserve(self, mirror: MirrorRecord) -> None:
        """Route a topic that is being created, before it exists on the target.

        A client that finds it there before its record is stored must not write to it.
        """
        self._reserved[mirror.mirror_topic] = mirror
        self.refresh([mirror.mirror_topic])

    def release(self, topic: str) -> None:
        """End a reservation: the record is stored, or the create has failed."""
        reserved = self._reserved.pop(topic, None)
        if reserved is not None and self._store.mirror_of(topic) is None:  # otherwise its record makes the route
            self.refresh([topic])

    def forget(self, topic: str) -> None:
        """Forget a deleted mirror."""
        self._readable.pop(topic, None)
        self.refresh([topic])

    def look(self) -> None:
        """Now and then: drop what is kept for retries over a cutover that is long ago."""
        now = self._clock()
        over = [topic for topic in self._recent if not self._cutovers.ends_left_s(topic, now)]
        if over:
            self.refresh(over)

    def refresh(self, topics: Iterable[str] = ()) -> None:
        """Take in changes, and publish a snapshot if it differs.

        Args:
            topics: topics for which something other than the records may have changed.
        """
        changed, links = self._changes.take()
        changed.update(topics)
        if links:
            changed.update(self._recorded, self._reserved)
        now = self._clock()
        for topic in changed:
            self._look_at(topic, now)
        is_prefixed_alike = not links or prefixes(self._store.links) == self._table.current.group_prefixes
        if is_prefixed_alike and not self._routes.changed:
            return
        news = frozenset(self._routes.changed)
        self._table.publish(self._routes.snapshot(self._store.links, self._store.forgotten_failbacks), news)

    def _look_at(self, topic: str, now: float) -> None:
        """Build a topic's route again from everything it depends on."""
        stored, kept = self._store.mirror_of(topic), self._store.failback_epochs.get(topic)
        epochs = (0 if stored is None else stored.failback.epoch, 0 if kept is None else kept.epoch)
        self._routes.count(topic, max(epochs))
        mirror = stored or self._reserved.get(topic)
        self._cutovers.saw(topic, mirror, now)
        is_retried = self._cutovers.left_s(topic, now) > 0
        is_recent = self._cutovers.ends_left_s(topic, now) > 0
        if is_recent:
            self._recent.add(topic)
        else:
            self._recent.discard(topic)
        if mirror is None:
            self._look_at_unmirrored(topic, kept, had_mirror=self._recorded.pop(topic, None) is not None)
            return
        known = self._recorded.get(topic)
        if known is None or known[0] is not mirror or known[1] != is_retried:
            known = self._recorded[topic] = mirror, is_retried, recorded(mirror, retried=is_retried)
        self.pauses.record(topic, known[2])
        link = self._store.links.get(mirror.link)
        if link is None:
            self._routes.drop(topic)
        else:
            readable = self._readable.get(topic) == mirror.mirror_id
            self._routes.put(mirror, link, self.pauses[topic], readable=readable, retried=is_retried, recent=is_recent)

    def _look_at_unmirrored(self, topic: str, kept: FailbackEpochRecord | None, *, had_mirror: bool) -> None:
        """Build the route of a topic without a mirror: its producers may still be in a failback epoch."""
        if had_mirror or kept is None or not kept.epoch:
            self.pauses.record(topic, None)
        if kept is None or not kept.epoch:
            self._routes.drop(topic)
            return
        self.pauses.record(topic, OF_NO_MIRROR)
        self._routes.put_unmirrored(kept, self.pauses[topic])
