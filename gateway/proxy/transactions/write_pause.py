"""Lets a pause of a topic wait for the transactions that may have the topic: for their end, and for their markers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from contextlib import suppress

import structlog

from gateway.kafka.connection.errors import NetError
from gateway.proxy.rules.transactional_ids import OWN, ProducerIdentity, TransactionSide, id_at
from gateway.proxy.rules.transactional_producers import TransactionalProducer
from gateway.proxy.transactions.coordinators import Lost, Refused, SeenTransaction, Unseen
from gateway.proxy.transactions.group_sides import OFFSETS
from gateway.proxy.transactions.placement import TopicPlacements
from gateway.proxy.transactions.transactions import Transactions

_LOOK_AGAIN_S = 0.1
_log = structlog.get_logger("lockgate.proxy")


class TransactionPauses:
    """The transactions that pauses wait for. `clock`: monotonic seconds."""

    def __init__(self, transactions: Transactions, placements: TopicPlacements, clock: Callable[[], float]) -> None:
        self._transactions = transactions
        self._coordinators = transactions.coordinators
        self._placements = placements
        self._clock = clock

    async def adopt(self, topics: Iterable[str]) -> None:
        """Find transactions begun through another process that may have one of the topics: a pause waits for them, too.
        Asks each cluster once.

        Ignores transactions of producers that do not use the gateway.
        """
        sides: dict[TransactionSide, bool] = {}  # whether groups change sides with a topic of it
        for topic in topics:
            with suppress(Refused):
                side = self._placements.paused_at(topic)
                if side is not None:
                    sides[side] = sides.get(side, False) or bool(self._placements.groups_with(topic))
        for side, moves_groups in sides.items():
            with suppress(NetError, Refused, Lost):
                await self._adopt_at(side, moves_groups=moves_groups)

    async def _adopt_at(self, side: TransactionSide, *, moves_groups: bool) -> None:
        if not (unended := await self._coordinators.unended(side)):
            return
        for record in await self._transactions.all_kept():
            name = record.transactional_id
            at = (each for each in (OWN, *record.sides) if each.cluster == side.cluster)
            mine = any(id_at(name, each) in unended for each in at)
            if not mine:
                continue
            known = self._transactions.known(name, record.client)
            if known is None:
                async with self._transactions.lock(name):
                    await self._transactions.identify(name, record.client)
            elif known.open is None and moves_groups:
                # Perhaps begun through a gateway that is gone, with a group's offsets and no topic: the leader asks
                # coordinators by topic, and would not find it.
                async with self._transactions.lock(name):
                    await self._transactions.look_again(known)

    def blocking(self, topic: str) -> list[TransactionalProducer]:
        """The producers that a pause of the topic must wait for."""
        producers = self._transactions.producers()
        closing = self._placements.closing() if producers else set[str]()  # called per topic, depends on all
        groups = self._placements.groups_with(topic) if producers else frozenset[str]()
        return [each for each in producers if each.blocks(topic, closing) or _has_offsets(each, groups, closing)]

    def blocked_by(self, topic: str) -> str:
        """The longest open transaction that a pause of the topic waits for, for people; '' if there is none."""
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
        """The topic's pause is acknowledged: no transaction may add it until the pause is over."""
        self._placements.close(topic)

    async def wait_for_end(self, topic: str) -> bool:
        """Ask the coordinators about the transactions that hold up a pause, and wait a little for them.

        True when a marker may still come and cannot be observed: on a cluster before Kafka 3.0.
        """
        untold = False
        for producer in self.blocking(topic):
            try:
                await self._look_at(producer)
            except Unseen:
                if producer.open is None:
                    producer.mark_written()
                    untold = True
            except (Refused, Lost, NetError) as exc:
                _log.debug("a transaction could not be looked at", reason=str(exc))
        if self.blocking(topic):
            await self._transactions.change(_LOOK_AGAIN_S)
        return untold

    async def _look_at(self, producer: TransactionalProducer) -> None:
        """Ask the coordinator for the state of the transaction: its client may be gone, its end unanswered."""
        if producer.in_transit or producer.in_flight:
            return
        async with self._transactions.lock(producer.transactional_id):
            side = producer.end_place(commit=True)
            seen = await self._coordinators.describe(side, producer.transactional_id)
            if not producer.in_transit and not producer.in_flight and producer.end_place(commit=True) == side:
                _conclude(producer, seen, producer.record.at(side))


def _has_offsets(producer: TransactionalProducer, groups: frozenset[str], closing: Set[str]) -> bool:
    """The producer may have offsets of one of these groups in a transaction whose marker may still come.

    A transaction found open at its coordinator has partitions of `__consumer_offsets` instead of groups; any of them
    may belong to one of these groups.
    """
    names = set(groups)
    if groups:
        at = (producer.open, producer.last)
        names |= {name for each in at if each is not None for name in each.topics if name.startswith(OFFSETS)}
    return any(producer.blocks(name, closing) for name in names)


def _conclude(producer: TransactionalProducer, seen: SeenTransaction | None, identity: ProducerIdentity | None) -> None:
    """Apply the coordinator's answer to a transaction that this process takes for open, or whose end is unresolved."""
    if seen is not None and seen.is_open and seen.identity == identity:
        if producer.open is not None:
            producer.confirm()
        else:
            producer.mark_written()
    elif seen is not None and seen.is_ending:
        producer.ended(unseen=True)
    else:
        producer.ended(markers_written=True, unseen=True)
        producer.mark_written()
