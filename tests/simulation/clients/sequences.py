"""What a producer's library decides: which batch may be sent next, and what an answer means for it. No I/O.

What both libraries share is here; each does the rest in its own way (`java.py`, `librdkafka.py`). Both send what they
have no answer for again under a new epoch, and no broker can tell that it is there already: these records are told to
`on_resent`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from protocol.errors import ErrorCode, error_name
from tests.simulation.clients.records import Sent

Key = tuple[str, int]
"""(topic, partition)."""

_E = ErrorCode
CERTAINLY_NOT: Final = frozenset(
    (
        _E.UNKNOWN_TOPIC_OR_PARTITION,
        _E.MESSAGE_TOO_LARGE,
        _E.NOT_ENOUGH_REPLICAS,
        _E.TOPIC_AUTHORIZATION_FAILED,
        _E.INVALID_TIMESTAMP,
        _E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        _E.INVALID_PRODUCER_EPOCH,
        _E.UNKNOWN_PRODUCER_ID,
        _E.INVALID_TXN_STATE,
        _E.INVALID_RECORD,
        _E.PRODUCER_FENCED,
    )
)
"""Answers after which the batch is not there. (NOT_LEADER_OR_FOLLOWER is none: the leader may lose its place while it
waits for its replicas.)"""
CERTAINLY_NOT_WITH_ONE_ACK: Final = CERTAINLY_NOT | {_E.NOT_LEADER_OR_FOLLOWER}
"""With acks=1 it says so before it appends."""
_METADATA: Final = frozenset(
    (
        _E.UNKNOWN_TOPIC_OR_PARTITION,
        _E.LEADER_NOT_AVAILABLE,
        _E.NOT_LEADER_OR_FOLLOWER,
        _E.REPLICA_NOT_AVAILABLE,
        _E.NETWORK_EXCEPTION,
        _E.FENCED_LEADER_EPOCH,
        _E.KAFKA_STORAGE_ERROR,
    )
)
_DENIED: Final = frozenset((_E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _E.CLUSTER_AUTHORIZATION_FAILED))
NO_SEQUENCE: Final = -1


class Identity(NamedTuple):
    """Producer id and epoch."""

    producer_id: int
    epoch: int


@dataclass(eq=False, slots=True)
class Batch:
    """Some records of one partition. `outcome_is_unknown`: an attempt may have appended it."""

    key: Key
    records: tuple[Sent, ...]
    body: bytes
    number: int
    created: float
    deadline: float
    identity: Identity | None = None
    sequence: int = NO_SEQUENCE
    attempts: int = 0
    on_wire: bool = False
    outcome_is_unknown: bool = False
    reset: bool = False
    retry_at: float = 0.0
    done: bool = False

    @property
    def count(self) -> int:
        """How many records."""
        return len(self.records)


@dataclass(slots=True)
class Partition:
    """What the library knows of one.

    `queue`: not on the wire, in order; `flight`: sent and not done; `wire`: those that wait for an answer, done or not.
    """

    queue: deque[Batch] = field(default_factory=deque)
    flight: list[Batch] = field(default_factory=list)
    wire: list[Batch] = field(default_factory=list)
    identity: Identity | None = None
    next_sequence: int = 0
    last_acked: int = NO_SEQUENCE
    last_acked_offset: int = -1
    unresolved: bool = False
    draining: bool = False

    @property
    def on_wire(self) -> bool:
        """Something waits for its answer."""
        return bool(self.wire)


class End(Enum):
    """How a batch ended for the application."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Refused(NamedTuple):
    """A batch failed, so the transaction does, or the whole producer."""

    code: int
    why: str
    fatal: bool


Ended = Callable[[Batch, End, int, str], None]
"""(batch, how, base offset or -1, why)."""


class Sequences:
    """What both libraries share.

    Args:
        idempotent: False: no identity, no sequences; retried only what is certainly not there.
        certain: answers after which a batch is not there.
        transactional: the epoch is bumped by the coordinator, not here.
        backoff: seconds before a batch is tried again, first and longest.

    Attributes:
        identity: what new batches are stamped with; None until the broker gave one.
        refused: why the transaction, or the producer, cannot go on.
        stale: topics whose leader should be asked for.
        bumps: how many epochs were begun here.
    """

    fenced_by: frozenset[ErrorCode] = frozenset((_E.PRODUCER_FENCED,))

    def __init__(
        self,
        ended: Ended,
        on_resent: Callable[[Batch], None],
        *,
        idempotent: bool,
        transactional: bool,
        backoff: tuple[float, float],
        certain: frozenset[ErrorCode] = CERTAINLY_NOT,
    ) -> None:
        self._ended, self._on_resent = ended, on_resent
        self.idempotent, self.transactional = idempotent, transactional
        self._backoff = backoff
        self._certain = certain
        self.identity: Identity | None = None
        self.partitions: dict[Key, Partition] = {}
        self.refused: Refused | None = None
        self.stale: set[str] = set()
        self.unanswered = 0
        self.bumps = 0

    def add(self, batch: Batch) -> None:
        """The application sends it."""
        self.unanswered += 1
        self.partition(batch.key).queue.append(batch)

    def partition(self, key: Key) -> Partition:
        """Known, or new."""
        return self.partitions.setdefault(key, Partition())

    @property
    def ready(self) -> bool:
        """Sending is possible at all."""
        return (self.identity is not None or not self.idempotent) and not (self.refused and self.refused.fatal)

    def waiting(self) -> list[Key]:
        """Partitions with something to send."""
        return [key for key, partition in self.partitions.items() if partition.queue]

    def next_time(self) -> float:
        """When a retry or a deadline comes due next."""
        found = float("inf")
        for partition in self.partitions.values():
            if partition.queue:
                head = partition.queue[0]
                found = min(found, head.deadline, head.retry_at or head.deadline)
            for batch in partition.flight:
                found = min(found, batch.deadline)
        return found

    def take(self, key: Key, now: float) -> Batch | None:
        """The batch that may be sent to a partition now; it is on the wire then."""
        partition = self.partitions[key]
        if not partition.queue or partition.queue[0].retry_at > now or not self.ready:
            return None
        batch = partition.queue[0]
        if self.idempotent and not self._may_go(partition, batch):
            return None
        partition.queue.popleft()
        if self.idempotent and batch.sequence == NO_SEQUENCE:
            batch.identity, batch.sequence = partition.identity, partition.next_sequence
            partition.next_sequence += batch.count
        if batch not in partition.flight:
            partition.flight.append(batch)
        batch.on_wire = True
        partition.wire.append(batch)
        batch.attempts += 1
        batch.retry_at = 0.0
        return batch

    def unheard(self, batch: Batch) -> None:
        """It was sent with acks=0: no answer comes."""
        self._off_the_wire(batch)
        self._over(self.partitions[batch.key], batch, End.UNKNOWN, -1, "")

    def lost(self, batch: Batch, now: float) -> None:
        """No answer: the connection is gone."""
        self.answered(batch, _E.NETWORK_EXCEPTION, -1, -1, now)

    def answered(self, batch: Batch, code: int, offset: int, log_start: int, now: float) -> None:
        """The broker's answer for a batch."""
        self._off_the_wire(batch)
        if code in _METADATA:
            self.stale.add(batch.key[0])
        if batch.done:  # given up meanwhile
            self.tick(now)
            return
        if code in (0, _E.DUPLICATE_SEQUENCE_NUMBER):
            self._acknowledged(batch, -1 if code else offset)
        else:
            batch.outcome_is_unknown |= code not in self._certain
            if code in _DENIED or (self.transactional and code in self.fenced_by):
                self._refuse(Refused(code, error_name(code), fatal=True))
            if not self._may_retry(batch, code, log_start):
                self._fail(batch, code, now)
            elif not batch.done:
                self._again(batch, now)
        self.tick(now)

    def tick(self, now: float) -> None:
        """What time and finished batches bring about."""
        for partition in self.partitions.values():
            for batch in [batch for batch in partition.flight if batch.deadline <= now]:
                self._expire(partition, batch)
            while partition.queue and partition.queue[0].deadline <= now:
                self._expire(partition, partition.queue[0])
        self._conclude()

    def give_up(self, why: str) -> None:
        """The producer is closed without waiting, or has failed: nothing is tried again."""
        for partition in self.partitions.values():
            for batch in dict.fromkeys((*partition.flight, *partition.queue)):
                if not batch.done:
                    self._over(partition, batch, End.UNKNOWN if batch.attempts else End.FAIL, -1, why)
            partition.queue.clear()
            partition.flight.clear()

    def drop_unsent(self, why: str) -> None:
        """The transaction is to be aborted: what was never sent is not sent."""
        for partition in self.partitions.values():
            for batch in [batch for batch in partition.queue if not batch.attempts]:
                self._over(partition, batch, End.FAIL, -1, why)

    def begin(self, identity: Identity) -> None:
        """The broker gave an identity."""
        self.identity = identity
        self.refused = None

    # -- of both ---------------------------------------------------------------------------------------------

    def _may_go(self, partition: Partition, batch: Batch) -> bool:
        raise NotImplementedError

    def _may_retry(self, batch: Batch, code: int, log_start: int) -> bool:
        raise NotImplementedError

    def _conclude(self) -> None:
        raise NotImplementedError

    def _failed_for_good(self, partition: Partition, batch: Batch, code: int) -> None:
        raise NotImplementedError

    def _off_the_wire(self, batch: Batch) -> None:
        batch.on_wire = False
        self.partitions[batch.key].wire.remove(batch)

    def _acknowledged(self, batch: Batch, offset: int) -> None:
        partition = self.partitions[batch.key]
        if batch.identity == partition.identity and batch.sequence != NO_SEQUENCE:
            partition.last_acked = max(partition.last_acked, batch.sequence + batch.count - 1)
        if offset >= 0:
            partition.last_acked_offset = max(partition.last_acked_offset, offset + batch.count - 1)
        self._over(partition, batch, End.OK, offset, "")

    def _again(self, batch: Batch, now: float) -> None:
        """To the front, in order of sequence."""
        batch.retry_at = now + min(self._backoff[0] * 2.0 ** min(batch.attempts - 1, 10), self._backoff[1])
        queue = self.partitions[batch.key].queue
        if batch.sequence == NO_SEQUENCE:
            queue.appendleft(batch)
            return
        later = [*queue]
        at = next(
            (i for i, b in enumerate(later) if b.sequence == NO_SEQUENCE or b.sequence > batch.sequence), len(later)
        )
        queue.insert(at, batch)

    def _fail(self, batch: Batch, code: int, _now: float) -> None:
        partition = self.partitions[batch.key]
        self._over(partition, batch, End.UNKNOWN if batch.outcome_is_unknown else End.FAIL, -1, error_name(code))
        if self.transactional and self.refused is None:
            self.refused = Refused(code, error_name(code), fatal=False)
        if self.idempotent:
            self._failed_for_good(partition, batch, code)

    def _expire(self, partition: Partition, batch: Batch) -> None:
        in_retry = batch.attempts > batch.on_wire
        self._over(
            partition,
            batch,
            End.UNKNOWN if batch.on_wire or batch.outcome_is_unknown else End.FAIL,
            -1,
            "delivery timeout",
        )
        if self.transactional and self.refused is None:
            self.refused = Refused(_E.REQUEST_TIMED_OUT, "delivery timeout", fatal=False)
        if self.idempotent and in_retry:
            partition.unresolved = True

    def _over(self, partition: Partition, batch: Batch, end: End, offset: int, why: str) -> None:
        batch.done = True
        self.unanswered -= 1
        if batch in partition.flight:
            partition.flight.remove(batch)
        if batch in partition.queue:
            partition.queue.remove(batch)
        self._ended(batch, end, offset, why)

    def _refuse(self, refused: Refused) -> None:
        if self.refused is None or not self.refused.fatal:
            self.refused = refused

    def _told_again(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            if batch.outcome_is_unknown or batch.on_wire:
                self._on_resent(batch)
