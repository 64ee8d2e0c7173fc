"""What a fence of a topic must wait for: the end of the transactions that may have the topic, and their markers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import structlog

from gateway.domain.transactional_ids import OWN, ProducerIdentity, id_at
from gateway.domain.transactional_producers import TransactionalProducer
from gateway.net.errors import NetError
from gateway.proxy.places import Lost, Refused, SeenTransaction, Unseen
from gateway.proxy.standings import Standings
from gateway.proxy.transactions import Transactions

_LOOK_AGAIN_S = 0.1
_log = structlog.get_logger("lockgate.proxy")


class TransactionFences:
    """`clock`: monotonic seconds."""

    def __init__(self, transactions: Transactions, standings: Standings, clock: Callable[[], float]) -> None:
        self._transactions = transactions
        self._places = transactions.places
        self._standings = standings
        self._clock = clock

    async def adopt(self, topic: str) -> None:
        """Learn of transactions that were begun through another process and may have the topic: a fence waits for them.

        Those of producers that do not use the gateway are none of its own.
        """
        with suppress(NetError, Refused, Lost):
            place = self._standings.fenced_at(topic)
            if place is None or not (unended := await self._places.unended(place)):
                return
            for record in await self._transactions.all_kept():
                name = record.transactional_id
                at = (each for each in (OWN, *record.places) if each.cluster == place.cluster)
                mine = any(id_at(name, each) in unended for each in at)
                if mine and self._transactions.known(name, record.client) is None:
                    async with self._transactions.lock(name):
                        await self._transactions.identify(name, record.client)

    def blocking(self, topic: str) -> list[TransactionalProducer]:
        """The producers that a fence of the topic must wait for."""
        closing = self._standings.closing()
        return [producer for producer in self._transactions.producers() if producer.holds_up(topic, closing)]

    def held_up_by(self, topic: str) -> str:
        """The transaction that has been open longest, of those that a fence of the topic must wait for; '' if none."""
        blocking = self.blocking(topic)
        opened = [(p.open.since, p) for p in blocking if p.open is not None]
        if opened:
            since, producer = min(opened, key=lambda each: each[0])
            return (
                f"the end of a transaction of {producer.transactional_id!r}, open for {self._clock() - since:.1f} s"
                + (f", and of {len(opened) - 1} more" if len(opened) > 1 else "")
            )
        return f"the markers of the last transaction of {blocking[0].transactional_id!r}" if blocking else ""

    def close(self, topic: str) -> None:
        """The topic's fence is acknowledged: no transaction takes it in until the fence has ended."""
        self._standings.close(topic)

    async def wait_for_end(self, topic: str) -> bool:
        """Wait a little for the transactions that hold up a fence, having asked their coordinators about them.

        True when a marker may still come and nobody can tell: on a cluster from before Kafka 3.0.
        """
        untold = False
        for producer in self.blocking(topic):
            try:
                await self._look_at(producer)
            except Unseen:
                if producer.open is None:
                    producer.settle()
                    untold = True
            except (Refused, Lost, NetError) as exc:
                _log.debug("a transaction could not be looked at", reason=str(exc))
        if self.blocking(topic):
            await self._transactions.change(_LOOK_AGAIN_S)
        return untold

    async def _look_at(self, producer: TransactionalProducer) -> None:
        """Its client may be gone, its end unanswered: the coordinator knows what became of the transaction."""
        if producer.in_transit or producer.in_flight:
            return
        async with self._transactions.lock(producer.transactional_id):
            place = producer.end_place(commit=True)
            seen = await self._places.describe(place, producer.transactional_id)
            if not producer.in_transit and not producer.in_flight and producer.end_place(commit=True) == place:
                _conclude(producer, seen, producer.record.at(place))


def _conclude(producer: TransactionalProducer, seen: SeenTransaction | None, identity: ProducerIdentity | None) -> None:
    """What the coordinator says of a transaction that this process believes to be open, or not to be settled."""
    if seen is not None and seen.is_open and seen.identity == identity:
        if producer.open is not None:
            producer.confirm()
        else:
            producer.settle()
    elif seen is not None and seen.is_ending:
        producer.ended()
    else:
        producer.ended(settled=True)
        producer.settle()
