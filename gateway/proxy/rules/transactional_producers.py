"""One transactional producer as a gateway follows it: where its open transaction lives, and what may come next. Pure.

States of a transaction::

    none --begin(place)--> open --end(result) sent--> ending --answered--> none (`last` keeps where it was)
           the first AddPartitionsToTxn or AddOffsetsToTxn decides the place; all that follows goes there

Rules, each of which `Violation` guards:

* a transaction has one place from its first request to its end; a producer changes places only between two;
* nothing of a mirrored topic is begun on the target before the topic was promoted: the place comes from the routes,
  and a paused topic begins nothing;
* an end that was sent is not sent again by the gateway; the client's own retry goes to the place of the first, also
  when the topic was promoted in between;
* no end is sent while a Produce of the transaction is in flight.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from gateway.proxy.rules.transactional_ids import (
    OWN,
    TARGET,
    ProducerIdentity,
    ProducerRecord,
    TransactionSide,
    id_at,
)
from protocol.batch.stamp import restamped
from protocol.wire import Buffer


class Violation(Exception):
    """A step that could tear or repeat a transaction. Never expected."""


@dataclass(slots=True)
class Transaction:
    """`topics`: names that clients use. `since`: monotonic seconds.

    `result`: what the end that was sent asked for (True = commit), None before.
    """

    side: TransactionSide
    since: float
    topics: set[str] = field(default_factory=set)
    result: bool | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The transaction before. `markers_written`: its markers are known to be written."""

    side: TransactionSide
    topics: frozenset[str]
    markers_written: bool


class PauseState(StrEnum):
    """Of a topic's write pause. CLOSING: not acknowledged yet, transactions that were open go on. CLOSED:
    acknowledged."""

    NONE = "none"
    CLOSING = "closing"
    CLOSED = "closed"


class TopicPlacement(NamedTuple):
    """Where a name (a topic or a group) is written now: the target (TARGET) or a source, by its cluster id."""

    cluster: str
    pause: PauseState = PauseState.NONE


class Admission(StrEnum):
    """What becomes of a request that takes names into a transaction."""

    GO = "go"
    HOLD = "hold"  # until the write pause ends
    REFUSE = "refuse"  # its names are not all where the transaction is


@dataclass(frozen=True, slots=True)
class Decision:
    """`side` with GO; `names` are those fenced (HOLD) or at another place (REFUSE)."""

    verdict: Admission
    side: TransactionSide = OWN
    names: tuple[str, ...] = ()


class TransactionalProducer:
    """What one gateway knows of one transactional id. `in_transit`: requests of it that are not answered yet.

    `came_by`: the connection that its requests to its coordinator came by last, None before. A producer has one at a
    time, so another one may mean that another gateway has served it in between.

    `ended_unseen`: where the transaction was that was open here, and that its coordinator has ended since, nobody here
    knows for whom. Only that coordinator knows whether it was committed: another place's last transaction was another
    one, and must not confirm this one's commit.
    """

    __slots__ = (
        "begun_in_vain",
        "came_by",
        "client",
        "completed",
        "ended_unseen",
        "in_flight",
        "in_transit",
        "last",
        "open",
        "record",
        "transactional_id",
    )

    def __init__(self, transactional_id: str, client: ProducerIdentity, record: ProducerRecord | None = None) -> None:
        self.transactional_id = transactional_id
        self.client = client
        self.record = record or ProducerRecord(transactional_id, client)
        self.open: Transaction | None = None
        self.last: Ended | None = None
        self.completed: dict[
            TransactionSide, bool
        ] = {}  # where a restart has found one that ended, and whether by a commit
        self.ended_unseen: TransactionSide | None = None
        self.begun_in_vain = False  # what was to open the transaction was refused here: there is nothing to end
        self.came_by: int | None = None
        self.in_flight = 0  # Produce requests
        self.in_transit = 0

    @property
    def is_idle(self) -> bool:
        """Nothing is known here that the kept records and the coordinators do not tell as well."""
        under_way = self.open is not None or self.in_flight or self.in_transit or self.begun_in_vain
        return not under_way and (self.last is None or self.last.markers_written)

    def blocks(self, topic: str, closing: Set[str]) -> bool:
        """True while a write pause of the topic must wait for this producer.

        Its transaction is open and has the topic, or another one whose write pause begins (it may yet add this one);
        or it is over, and the markers may not be written.
        """
        if self.open is not None and (topic in self.open.topics or not closing.isdisjoint(self.open.topics)):
            return True
        return self.last is not None and not self.last.markers_written and topic in self.last.topics

    def decide(self, wanted: Mapping[str, TopicPlacement], failback_epoch: int) -> Decision:
        """Where names go that a request takes into the transaction.

        Args:
            failback_epoch: how often topics have failed back, all together; a producer never goes back to a lower one.
        """
        if self.open is not None:
            return self._decide_open(self.open, wanted)
        if paused := tuple(name for name, at in wanted.items() if at.pause is not PauseState.NONE):
            return Decision(Admission.HOLD, names=paused)
        cluster = next((at.cluster for at in wanted.values()), TARGET)
        if others := tuple(name for name, at in wanted.items() if at.cluster != cluster):
            return Decision(Admission.REFUSE, TransactionSide(cluster), others)
        return Decision(Admission.GO, TransactionSide(cluster, max(failback_epoch, self.record.newest(cluster))))

    def _decide_open(self, transaction: Transaction, wanted: Mapping[str, TopicPlacement]) -> Decision:
        side = transaction.side
        new = {name: at for name, at in wanted.items() if name not in transaction.topics}
        if others := tuple(n for n, at in new.items() if at.cluster != side.cluster and at.pause is PauseState.NONE):
            return Decision(Admission.REFUSE, side, others)
        # A write pause that is closing waits for the transactions that have its topics: were they held for it, each
        # would
        # wait for the other. One that is closed must not see its topic written again before it ends, not even by a
        # transaction that another gateway has begun with it, and that this one has heard of too late.
        elsewhere = tuple(n for n, at in new.items() if at.cluster != side.cluster)
        closed = tuple(name for name, at in wanted.items() if at.pause is PauseState.CLOSED)
        if held := elsewhere or closed:
            return Decision(Admission.HOLD, side, held)
        return Decision(Admission.GO, side)

    # -- steps ---------------------------------------------------------------------------------------------

    def begin(self, side: TransactionSide, topics: set[str], now: float) -> bool:
        """A request that takes `topics` in is about to be sent. True when it opens the transaction."""
        self.begun_in_vain = False
        self.ended_unseen = None
        if self.open is None:
            self.open = Transaction(side, now, set(topics))
            return True
        if self.open.side != side:
            raise Violation(f"{self.transactional_id}: a transaction at {self.open.side} would go on at {side}")
        self.open.topics |= topics
        return False

    def confirm(self) -> None:
        """Its coordinator has taken the request: the transaction is open, and the one before is wholly ended."""
        self.completed.clear()
        self.mark_written()

    def refused(self) -> None:
        """The coordinator has refused the request that was to open the transaction."""
        self.open = None

    def turned_away(self) -> None:
        """The gateway has refused to take names in; when nothing is open, the client will end what never began."""
        self.begun_in_vain = self.open is None

    def produce(self, side: TransactionSide) -> None:
        """A Produce is about to be sent."""
        if self.open is not None and self.open.side != side:
            raise Violation(f"{self.transactional_id}: data of a transaction at {self.open.side} would go to {side}")
        self.in_flight += 1

    def produced(self) -> None:
        """It was answered, or its connection is gone."""
        self.in_flight -= 1

    def end_place(self, *, commit: bool) -> TransactionSide:
        """Where an EndTxn goes: to the open transaction, or as the repeat of an end to the one before.

        With nothing known of either it goes by how transactions have `completed`: coordinators do not tell which was
        the last.
        """
        if self.open is not None:
            return self.open.side
        if self.last is not None:
            return self.last.side
        if commit and self.ended_unseen is not None:
            return self.ended_unseen
        return next((side for side, committed in self.completed.items() if committed is commit), OWN)

    def end(self, *, commit: bool) -> None:
        """An EndTxn is about to be sent."""
        if self.in_flight:
            raise Violation(f"{self.transactional_id}: an end would overtake {self.in_flight} produce requests")
        if self.open is not None:
            self.open.result = commit

    def ended(self, *, markers_written: bool = False, unseen: bool = False) -> None:
        """The transaction is over: its coordinator has said so. `unseen`: when it was asked, not to answer an end."""
        if self.open is not None:
            if unseen:
                self.ended_unseen = self.open.side
            self.last = Ended(self.open.side, frozenset(self.open.topics), markers_written)
            self.open = None

    def mark_written(self) -> None:
        """The markers of the last transaction are written."""
        if self.last is not None:
            self.last = Ended(self.last.side, self.last.topics, markers_written=True)

    def found_at_own(self, now: float) -> None:
        """The target has a transaction of it open. Perhaps no request told of it here: nothing was mirrored then."""
        if self.open is None or self.open.side != OWN:
            self.open = None
            self.begin(OWN, set(), now)

    def learn(self, found: TransactionalProducer) -> None:
        """What its coordinators say, asked anew: another gateway may have begun or ended a transaction of it."""
        self.record, self.completed = found.record, found.completed
        here, there = self.open, found.open
        if there is not None and here is not None and here.side == there.side:
            here.topics |= there.topics  # coordinators do not name groups
        else:
            if here is not None and there is None:
                self.ended_unseen = here.side
            self.open = there
        self.last = found.last
        self.begun_in_vain = self.begun_in_vain and self.open is None

    def not_ended(self) -> None:
        """The coordinator has refused the end for now: the client decides anew."""
        if self.open is not None:
            self.open.result = None


class TransactionalWrite:
    """One request of a transaction. `passing`: topics that its transaction has, which no write pause holds."""

    __slots__ = ("_identity", "passing", "producer", "side", "transactional_id")

    def __init__(self, producer: TransactionalProducer, side: TransactionSide, identity: ProducerIdentity) -> None:
        self.producer = producer
        self.side = side
        self._identity = identity
        self.transactional_id = id_at(producer.transactional_id, side)
        self.passing = frozenset(producer.open.topics) if producer.open is not None else frozenset()

    @property
    def is_own(self) -> bool:
        """Nothing is restamped."""
        return self.side == OWN

    def records(self, batch: Buffer) -> Buffer:
        """The batch as it goes to the transaction's place."""
        return batch if self.is_own else restamped(batch, *self._identity)
