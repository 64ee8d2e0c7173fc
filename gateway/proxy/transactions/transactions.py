"""The transactional producers that this gateway serves: who they are, here and elsewhere.

Pure decisions are in `proxy/rules/transactional_producers.py`. Whatever changes a producer runs under its lock, so one
coordinator request of a transactional id is under way at a time; clients send no more than one. What is not known here
is looked up (`producer_lookup`); what a write pause waits for is in `transaction_pauses`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from weakref import WeakValueDictionary

from gateway.proxy.rules.transactional_ids import ProducerIdentity, ProducerRecord, TransactionSide
from gateway.proxy.rules.transactional_producers import TransactionalProducer
from gateway.proxy.transactions.coordinators import Refused, TransactionCoordinators, Unseen
from gateway.proxy.transactions.identities import Identities, answered
from gateway.proxy.transactions.placement import TopicPlacements
from gateway.proxy.transactions.producer_lookup import ProducerLookup
from protocol.errors import ErrorCode

KEPT = 10_000  # producers


class Transactions:
    """See the module. `clock`: monotonic seconds. `alone`: no other gateway is in the fleet now."""

    def __init__(
        self,
        placements: TopicPlacements,
        coordinators: TransactionCoordinators,
        identities: Identities,
        clock: Callable[[], float],
        alone: Callable[[], bool] = lambda: True,
    ) -> None:
        self.coordinators = coordinators
        self._alone = alone
        self._identities = identities
        self._lookup = ProducerLookup(coordinators, identities, placements, clock)
        self._producers: dict[str, TransactionalProducer] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # while they are held
        self._changed = asyncio.Event()

    def lock(self, transactional_id: str) -> asyncio.Lock:
        """Held by whoever changes the producer."""
        return self._locks.setdefault(transactional_id, asyncio.Lock())

    def producers(self) -> Collection[TransactionalProducer]:
        """All that are known here."""
        return self._producers.values()

    # -- who it is -----------------------------------------------------------------------------------------

    def known(self, transactional_id: str, client: ProducerIdentity) -> TransactionalProducer | None:
        """The producer, when nothing has to be asked for it."""
        found = self._producers.get(transactional_id)
        return found if found is not None and found.client == client else None

    async def identify(
        self, transactional_id: str, client: ProducerIdentity, came_by: int | None = None, *, to_end: bool = False
    ) -> TransactionalProducer:
        """The producer that a client says it is. The caller holds its lock.

        Args:
            came_by: the connection, of a request that clients send to the coordinator of their transactions.
            to_end: it wants to end its transaction. Behind a load balancer it may have begun it, or ended the one
                that is known here, through another gateway and come back by a connection that it kept: a coordinator
                that is asked to repeat an end says yes, and the open transaction would be left to its timeout.

        Raises:
            Refused: it was fenced, or is no such producer; or nobody can tell now.
        """
        found = self.known(transactional_id, client)
        if found is None:
            found = self._keep(await self._lookup.find(transactional_id, client))
        elif came_by is not None and (
            found.came_by != came_by or (to_end and (found.open is None or not self._alone()))
        ):
            await self.look_again(found)
        if came_by is not None:
            found.came_by = came_by
        return found

    async def look_again(self, producer: TransactionalProducer) -> bool:
        """Another gateway may have served the producer meanwhile: ask its coordinators. The caller holds its lock.

        False when what is known here counts: a cluster from before Kafka 3.0 cannot tell, or a request of the
        producer's own is under way. Raises as `identify`.
        """
        learnt = await self._lookup.look_again(producer)
        if learnt:
            self.changed()
        return learnt

    def _keep(self, producer: TransactionalProducer) -> TransactionalProducer:
        """Follow a producer. Beyond `KEPT` those are forgotten that have been idle longest, to be looked up again."""
        self._producers.pop(producer.transactional_id, None)
        if len(self._producers) >= KEPT:
            idle = [name for name, each in self._producers.items() if each.is_idle and not self._is_locked(name)]
            for name in idle[: max(KEPT // 10, 1)]:
                del self._producers[name]
        self._producers[producer.transactional_id] = producer
        return producer

    def _is_locked(self, transactional_id: str) -> bool:
        lock = self._locks.get(transactional_id)
        return lock is not None and lock.locked()

    # -- identities elsewhere ------------------------------------------------------------------------------

    async def identity_at(self, producer: TransactionalProducer, side: TransactionSide) -> ProducerIdentity:
        """Its identity at a place, obtained there when it has none yet. The caller holds its lock.

        Raises:
            Refused, Lost: it could not be obtained, or not be kept.
        """
        found = producer.record.at(side)
        if found is None:
            old, sides = producer.record, dict(producer.record.sides)
            if side.cluster and side.plain not in sides:
                sides[side.plain] = await self.coordinators.init(
                    side.plain, producer.transactional_id, old.timeout_ms, None
                )
            if side != side.plain:
                sides[side] = await self.coordinators.init(side, producer.transactional_id, old.timeout_ms, None)
            found = sides[side]
            record = ProducerRecord(old.transactional_id, old.client, old.timeout_ms, sides)
            with answered():
                kept = await self._identities.keep(record)
            _require_newest(kept, old.client)
            producer.record = kept
        return producer.record.at(side) or found

    async def has_newer(self, producer: TransactionalProducer, side: TransactionSide, code: int) -> bool:
        """True when a place fences the producer only because another gateway, late, has initialised it there too.

        The identity that it got is the producer's then. The caller holds the lock.
        """
        if code not in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
            return False
        used, record = producer.record.at(side), await self.kept(producer.transactional_id)
        if used is None or record is None or record.client != producer.client:
            return False
        found = record.at(side)
        if found is None or found.producer_id != used.producer_id or found.epoch <= used.epoch:
            return False
        producer.record = record
        return True

    async def is_fenced_at_source(self, producer: TransactionalProducer, side: TransactionSide) -> bool:
        """True when an instance that writes to a source directly has been initialised since this one was.

        Where both have one transactional id the coordinator itself tells them apart. Behind a failback it does not: the
        place has one of its own. A source from before Kafka 3.0 cannot be asked. The caller holds the lock.

        Raises:
            Refused, Lost: nobody can tell now.
        """
        ours = producer.record.at(side.plain)
        if not side.cluster or side == side.plain or ours is None:
            return False
        try:
            seen = await self.coordinators.describe(side.plain, producer.transactional_id)
        except Unseen:
            return False
        if seen is None or seen.identity == ours:
            return False
        record = await self.kept(producer.transactional_id)  # another gateway, late, may have initialised it
        return record is None or record.client != producer.client or record.at(side.plain) != seen.identity

    async def initialised(self, record: ProducerRecord, came_by: int) -> None:
        """Keep a record and begin anew with it: what there was is over. The caller holds the lock.

        Raises:
            Refused: it could not be kept.
        """
        with answered():
            kept = await self._identities.keep(record)
        _require_newest(kept, record.client)
        name = record.transactional_id
        begun = self._keep(TransactionalProducer(name, kept.client, kept))
        begun.came_by = came_by
        self.changed()

    async def kept(self, transactional_id: str) -> ProducerRecord | None:
        """The record in force. Raises Refused when it cannot be read."""
        with answered():
            return await self._identities.current(transactional_id)

    async def all_kept(self) -> Collection[ProducerRecord]:
        """Every record in force. Raises Refused when they cannot be read."""
        with answered():
            return await self._identities.all()

    # -- changes -------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Something of a producer has changed: whoever waits looks again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait, without a bound of its own, until a condition on producers holds."""
        while not condition():
            await self._changed.wait()

    async def change(self, timeout_s: float) -> None:
        """Wait for a change of any producer, but not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()


def _require_newest(kept: ProducerRecord, client: ProducerIdentity) -> None:
    if kept.client != client:
        raise Refused(
            ErrorCode.PRODUCER_FENCED, f"{kept.transactional_id!r}: a newer instance was initialised meanwhile"
        )
