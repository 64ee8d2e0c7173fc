"""Finds out what this process has not seen of a transactional producer: who it is, and what it has open.

Another gateway may have served it, or this one before a restart, or none while no topic was mirrored. What was kept of
it is in `Identities`; what it has open, only the coordinators know, which are asked at each place where it may be.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from gateway.proxy.rules.transactional_ids import OWN, ProducerIdentity, ProducerRecord, TransactionSide
from gateway.proxy.rules.transactional_producers import Ended, Transaction, TransactionalProducer
from gateway.proxy.transactions.coordinators import Refused, SeenTransaction, TransactionCoordinators, Unseen
from gateway.proxy.transactions.identities import Identities, answered
from gateway.proxy.transactions.placement import TopicPlacements
from protocol.errors import ErrorCode

_DEFAULT_TIMEOUT_MS = 60_000


class ProducerLookup:
    """`clock`: monotonic seconds. Asks, and keeps nothing."""

    def __init__(
        self,
        coordinators: TransactionCoordinators,
        identities: Identities,
        placements: TopicPlacements,
        clock: Callable[[], float],
    ) -> None:
        self._coordinators = coordinators
        self._identities = identities
        self._placements = placements
        self._clock = clock

    async def find(self, transactional_id: str, client: ProducerIdentity) -> TransactionalProducer:
        """The producer that a client says it is.

        Raises:
            Refused: it was fenced, or is no such producer; or nobody can tell now.
        """
        with answered():
            record = await self._identities.current(transactional_id)
        if record is None or record.client != client:
            record = await self._record_from_target(transactional_id, client, record)
        producer = TransactionalProducer(transactional_id, client, record)
        try:
            await self._find_transaction(producer)
        except Unseen as exc:
            why = f"{exc} cannot tell whether {transactional_id!r} has a transaction"
            raise Refused(ErrorCode.PRODUCER_FENCED, why) from exc
        return producer

    async def look_again(self, producer: TransactionalProducer) -> bool:
        """Have a producer learn what there is by now. False when it did not: a request of its own is under way.

        A cluster from before Kafka 3.0 cannot tell; then what is known counts, and it is False too. Raises as `find`.
        """
        if producer.in_transit:
            return False
        with answered():
            record = await self._identities.current(producer.transactional_id)
        _require_not_paused(producer.transactional_id, producer.client, record)
        known = record if record is not None and record.client == producer.client else producer.record
        found = TransactionalProducer(producer.transactional_id, producer.client, known)
        with suppress(Unseen):
            await self._find_transaction(found)
            if not producer.in_transit:
                producer.learn(found)
                return True
        return False

    async def _record_from_target(
        self, transactional_id: str, client: ProducerIdentity, record: ProducerRecord | None
    ) -> ProducerRecord:
        """The record of a producer that was initialised while no topic was mirrored: the target knows whether it is."""
        _require_not_paused(transactional_id, client, record)
        try:
            seen = await self._coordinators.describe(OWN, transactional_id)
        except Unseen:
            return ProducerRecord(transactional_id, client, _DEFAULT_TIMEOUT_MS)
        if seen is None or seen.identity.producer_id != client.producer_id:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{transactional_id!r}: not its producer id")
        if seen.identity.epoch != client.epoch:
            raise Refused(ErrorCode.PRODUCER_FENCED, f"{transactional_id!r}: a newer instance was initialised")
        return ProducerRecord(transactional_id, client, seen.timeout_ms)

    async def _find_transaction(self, producer: TransactionalProducer) -> None:
        """What the producer has open, or has ended last, by its coordinators. Raises Unseen: a source cannot tell."""
        for side in (OWN, *filter(self._coordinators.has, producer.record.sides)):
            try:
                seen = await self._coordinators.describe(side, producer.transactional_id)
            except Unseen:
                if side == OWN:
                    continue
                raise
            if seen is not None:
                self._saw(producer, side, seen)

    def _saw(self, producer: TransactionalProducer, side: TransactionSide, seen: SeenTransaction) -> None:
        identity, topics = producer.record.at(side), self._placements.names(side, seen.topics)
        if seen.identity == identity and seen.is_open:
            producer.open = Transaction(side, self._clock(), set(topics))
        elif seen.is_ending or seen.identity != identity:
            producer.last = Ended(side, frozenset(topics), markers_written=not seen.is_ending)
        elif seen.state.startswith("Complete"):
            producer.completed[side] = seen.state == "CompleteCommit"


def _require_not_paused(transactional_id: str, client: ProducerIdentity, record: ProducerRecord | None) -> None:
    same = record is not None and record.client.producer_id == client.producer_id
    if record is not None and same and record.client.epoch > client.epoch:
        raise Refused(ErrorCode.PRODUCER_FENCED, f"{transactional_id!r}: a newer instance was initialised")
