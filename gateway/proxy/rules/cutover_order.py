"""Right after a cutover, makes a producer continue with the batch that follows its last one. Pure; one per gateway.

A broker that has never seen a producer accepts any first sequence, and the newly written cluster has never seen the
producers of the other one. Writes held by the pause wait per connection. If a partition's leader moves meanwhile, a
producer's later batches are on another connection than the earlier ones. The earlier ones reach a former leader, and
are retried too late: the later ones are in the log already. Then Java gives the earlier ones a new epoch, and
librdkafka takes them for acknowledged, since no broker would have accepted the later ones without them. So until the
cluster is known to have a batch of a producer, only the batch passes that the former broker would have accepted next:
the one after the last batch handed over with the cutover, or, for a producer unknown there, the first batch held here.
Other batches are refused, and come again. Another gateway may have sent the earlier batches: so for a refused batch the
cluster is asked whether it knows the producer by now.

After a failover the last batch handed over need not be the producer's last one: some may be left behind. So a batch
that does not follow it waits only for a while, in which earlier ones that another gateway has held come again; then the
first batch counts that was held here, or was in flight when the source was given up.

Not covered: two connections of a producer that had never written to the partition before, to two gateways; or its
second connection being made after the cutover of a topic without known producers.
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
"""Clients retry after 1 s at most (retry.backoff.max.ms); this leaves time for the second retry, too."""
_SEQUENCES = 0x7FFFFFFF  # sequences wrap: after 2^31 - 1 comes 0

_Producer = tuple[int, int]  # partition, producer id


class SentBatch(NamedTuple):
    """One batch of a producer with an id, and the batches of that producer handed over for the partition."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    first_sequence: int
    last_sequence: int
    entries: Sequence[ProducerEntry] = ()


@dataclass(slots=True)
class _Cutover:
    """`held`: epoch and first sequence of the earliest held batch. `known`: producers with a batch on the cluster.

    `goes_on`: a producer's first batch follows the ones handed over. `sent`: the batch in flight: connection, epoch,
    its first sequence and the sequence after it.
    """

    since: float
    goes_on: bool
    held: dict[_Producer, tuple[int, int]]
    known: set[_Producer] = field(default_factory=set)
    sent: dict[_Producer, tuple[int, int, int, int]] = field(default_factory=dict)


class CutoverOrder:
    """The producers' order after cutovers. Times are monotonic seconds."""

    __slots__ = ("_held", "_paused", "_sides", "_watched")

    def __init__(self) -> None:
        self._sides: dict[str, tuple[WritePhase, int]] = {}  # topic -> where it is written, or was before the pause
        self._paused: set[str] = set()
        self._held: dict[str, dict[_Producer, tuple[int, int]]] = {}
        self._watched: dict[str, _Cutover] = {}

    def __bool__(self) -> bool:
        return bool(self._watched)

    def watches(self, now: float) -> bool:
        """True while there is a recent cutover. Forgets older ones."""
        for topic in [topic for topic, found in self._watched.items() if now >= found.since + WATCHED_S]:
            del self._watched[topic]
        return bool(self._watched)

    def routing_changed(self, routing: Routing, changed: Collection[str], now: float) -> None:
        """Find cutovers: changes of side that were seen here with a write pause. `changed`: the topics to check."""
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
        """Batches that wait for the end of a write pause, or were in flight to the source when their connection was
        lost, and will be held when they come again. Ignores those of topics that are not paused: they wait for another
        topic's pause, and are reported again if theirs is paused by then."""
        for batch in batches:
            if batch.topic not in self._paused:
                continue
            held = self._held.setdefault(batch.topic, {})
            key = batch.partition, batch.producer_id
            earliest = held.get(key)
            if earliest is None or earliest[0] != batch.epoch or _precedes(batch.first_sequence, earliest[1]):
                held[key] = batch.epoch, batch.first_sequence

    def too_early(self, connection: int, batches: Sequence[SentBatch], now: float) -> list[SentBatch]:
        """The batches that must not be sent yet on that client connection; if there are none, all count as sent."""
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
        """The cluster has the producer's batch (`known`), and checks sequences itself from then on; or refused it."""
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
            return True  # a retry of the batch in flight, or the one right after it, on the same connection
        if batch.entries and (found.goes_on or now < found.since + LATE_S or _follows(batch)):
            return _follows(batch)
        epoch, first = found.held.get(key, (batch.epoch, batch.first_sequence))
        begins_anew = batch.epoch > epoch and batch.first_sequence == 0  # the client has given up the held batches
        return begins_anew or (epoch, first) == (batch.epoch, batch.first_sequence)


def _follows(batch: SentBatch) -> bool:
    """A broker that knows these entries would accept it: the next sequence, or the first of a newer epoch."""
    if batch.first_sequence == 0 and batch.epoch > max(entry.epoch for entry in batch.entries):
        return True
    return any(
        entry.epoch == batch.epoch and (entry.last_sequence + 1) & _SEQUENCES == batch.first_sequence
        for entry in batch.entries
    )


def _precedes(one: int, other: int) -> bool:
    return 0 < (other - one) & _SEQUENCES < _SEQUENCES // 2
