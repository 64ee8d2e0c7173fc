"""Right after a cutover: a producer goes on with the batch that follows its last one. Pure; one per gateway.

A broker that has never seen a producer takes any first sequence, and the cluster that is written from now on has never
seen those of the other one. What waited for the write pause waits per connection. When the leader of a partition moves
meanwhile, a producer has its later batches on another connection than the earlier ones, which come to a broker that
leads no more, and come again too late: the later ones are in the log already. Java gives the earlier ones a new epoch,
and librdkafka takes them for acknowledged, since no broker would have taken the later ones without them. So until the
cluster is known to have taken a batch of a producer, only the one passes that the broker before would have taken next:
what follows the last batch that was handed over with the cutover, or, of a producer that nobody knew there, the first
one that was held here. The others are refused, and come again. Another gateway may have sent the earlier ones: so of
whoever is refused the cluster is asked whether it knows the producer by now.

After a failover the last batch that was handed over need not be the producer's last one: some may be left behind. So
what does not follow it waits only for a while, in which earlier ones that another gateway has held come again; then the
first one counts that was held here, or was under way when the source was given up.

What is not seen: two connections of a producer that had never written to the partition before, to two gateways, or the
second one made behind the cutover of a topic of which no producer is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.cutover.write_pause.rules.routing import Routing
from gateway.cutover.write_pause.rules.write_pause import WritePhase
from gateway.state.records import ProducerEntry

WATCHED_S = 35.0
"""Longer than a client waits for the answer of a broker that is gone (request.timeout.ms is 30 s)."""
LATE_S = 3.0
"""Clients send again after 1 s at most (retry.backoff.max.ms); here for the second time, too."""
_SEQUENCES = 0x7FFFFFFF  # counted round: after 2^31 - 1 comes 0

_Producer = tuple[int, int]  # partition, producer id


class SentBatch(NamedTuple):
    """One batch of a producer with an id, and what was handed over of that producer on the partition."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    first_sequence: int
    last_sequence: int
    entries: Sequence[ProducerEntry] = ()


@dataclass(slots=True)
class _Cutover:
    """`held`: epoch and first sequence of the earliest batch. `known`: producers of whom the cluster has a batch.

    `goes_on`: the first batch of a producer follows what was handed over. `sent`: what is on its way: connection,
    epoch, its first sequence and the one that follows it.
    """

    since: float
    goes_on: bool
    held: dict[_Producer, tuple[int, int]]
    known: set[_Producer] = field(default_factory=set)
    sent: dict[_Producer, tuple[int, int, int, int]] = field(default_factory=dict)


class CutoverOrder:
    """Times are monotonic seconds."""

    __slots__ = ("_held", "_paused", "_sides", "_watched")

    def __init__(self) -> None:
        self._sides: dict[str, tuple[WritePhase, int]] = {}  # topic -> where it is written, or was before the pause
        self._paused: set[str] = set()
        self._held: dict[str, dict[_Producer, tuple[int, int]]] = {}
        self._watched: dict[str, _Cutover] = {}

    def __bool__(self) -> bool:
        return bool(self._watched)

    def watches(self, now: float) -> bool:
        """False when there is nothing to look at any more."""
        for topic in [topic for topic, found in self._watched.items() if now >= found.since + WATCHED_S]:
            del self._watched[topic]
        return bool(self._watched)

    def routing_changed(self, routing: Routing, changed: Collection[str], now: float) -> None:
        """A cutover is one that was seen here as a write pause. `changed`: the topics to look at."""
        for topic in changed:
            route = routing.topics.get(topic)
            if route is None:
                self._forget(topic)
                continue
            side = route.phase, route.failback_epoch
            if side[0] is WritePhase.PAUSED:
                self._paused.add(topic)
                continue
            before, held = self._sides.get(topic), self._held.pop(topic, {})
            if topic in self._paused and before is not None and before != side:
                self._watched[topic] = _Cutover(now, route.goes_on, held)
            self._paused.discard(topic)
            self._sides[topic] = side

    def _forget(self, topic: str) -> None:
        self._sides.pop(topic, None)
        self._paused.discard(topic)
        self._held.pop(topic, None)
        self._watched.pop(topic, None)

    def held(self, batches: Iterable[SentBatch]) -> None:
        """They wait for the end of a write pause, or were under way to the source when their connection was lost, and
        come again to be held. Those of topics that are not paused wait for another one's, and are
        told again if theirs is paused by then."""
        for batch in batches:
            if batch.topic not in self._paused:
                continue
            held = self._held.setdefault(batch.topic, {})
            key = batch.partition, batch.producer_id
            earliest = held.get(key)
            if earliest is None or earliest[0] != batch.epoch or _precedes(batch.first_sequence, earliest[1]):
                held[key] = batch.epoch, batch.first_sequence

    def too_early(self, connection: int, batches: Sequence[SentBatch], now: float) -> list[SentBatch]:
        """Those that must not be sent yet, by that client's connection; if there are none, all count as sent."""
        if early := [batch for batch in batches if not self._admits(connection, batch, now)]:
            return early
        for batch in batches:
            found = self._watched.get(batch.topic)
            if found is not None:
                following = (batch.last_sequence + 1) & _SEQUENCES
                found.sent[batch.partition, batch.producer_id] = (
                    connection,
                    batch.epoch,
                    batch.first_sequence,
                    following,
                )
        return []

    def answered(self, batch: SentBatch, *, known: bool) -> None:
        """The producer is `known` to the cluster, which judges itself from then on; or this batch was refused."""
        found, key = self._watched.get(batch.topic), (batch.partition, batch.producer_id)
        if found is None:
            return
        found.sent.pop(key, None)
        if known:
            found.known.add(key)

    def _admits(self, connection: int, batch: SentBatch, now: float) -> bool:
        found, key = self._watched.get(batch.topic), (batch.partition, batch.producer_id)
        if found is None or key in found.known:
            return True
        sent = found.sent.get(key)
        if sent is not None and sent[:2] == (connection, batch.epoch) and batch.first_sequence in sent[2:]:
            return True  # the one that is on its way, or right behind it, to the same broker
        if batch.entries and (found.goes_on or now < found.since + LATE_S or _follows(batch)):
            return _follows(batch)
        epoch, first = found.held.get(key, (batch.epoch, batch.first_sequence))
        begins_anew = batch.epoch > epoch and batch.first_sequence == 0  # the client has given up what was held
        return begins_anew or (epoch, first) == (batch.epoch, batch.first_sequence)


def _follows(batch: SentBatch) -> bool:
    """As a broker has it that knows these entries: the next sequence, or the first of a newer epoch."""
    if batch.first_sequence == 0 and batch.epoch > max(entry.epoch for entry in batch.entries):
        return True
    return any(
        entry.epoch == batch.epoch and (entry.last_sequence + 1) & _SEQUENCES == batch.first_sequence
        for entry in batch.entries
    )


def _precedes(one: int, other: int) -> bool:
    return 0 < (other - one) & _SEQUENCES < _SEQUENCES // 2
