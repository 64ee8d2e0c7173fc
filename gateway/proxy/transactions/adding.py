"""Taking topics and groups into a transaction: the producer found, the place decided, a pause waited for, an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.proxy.rules.transactional_ids import ProducerIdentity, TransactionSide
from gateway.proxy.rules.transactional_producers import Admission, Decision, TopicPlacement, TransactionalProducer
from gateway.proxy.transactions.coordinator_calls import in_transit
from gateway.proxy.transactions.coordinators import Refused
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from gateway.cutover.write_pause.rules.routing import RoutingTable
    from gateway.proxy.session.stats import ProxyStats
    from gateway.proxy.transactions.placement import TopicPlacements
    from gateway.proxy.transactions.transactions import Transactions

HOLD_S = 8.0
_ANY = ("", "")

Wanted = Callable[[TransactionalProducer], Mapping[str, TopicPlacement]]


class TransactionAdding:
    """Takes topics and groups into transactions.

    Args:
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        transactions: Transactions,
        placements: TopicPlacements,
        routing: RoutingTable,
        stats: ProxyStats,
        clock: Callable[[], float],
    ) -> None:
        self._transactions = transactions
        self._placements = placements
        self._routing = routing
        self._stats = stats
        self._clock = clock

    @asynccontextmanager
    async def add(
        self, transactional_id: str, client: ProducerIdentity, came_by: int, wanted: Wanted, who: tuple[str, str] = _ANY
    ) -> AsyncIterator[tuple[TransactionalProducer, Decision]]:
        """The producer, under its lock, and where what it wants goes: GO or REFUSE. Waits while a pause holds it.

        `who`: the client id and the address of who asks.

        Raises:
            Refused: CONCURRENT_TRANSACTIONS when the pause outlasts the wait, and as `Transactions.identify`.
        """
        deadline = self._clock() + HOLD_S
        while True:
            async with self._transactions.lock(transactional_id):
                producer = await self._transactions.identify(transactional_id, client, came_by)
                decision = producer.decide(wanted(producer), self._placements.failback_epoch())
                if decision.verdict is not Admission.GO:
                    # The transaction that it does not fit into may have ended through another gateway; the one that the
                    # pause here would keep from beginning may be open there, and be waited for by that gateway's pause.
                    await self._transactions.look_again(producer)
                    decision = producer.decide(wanted(producer), self._placements.failback_epoch())
                if decision.verdict is not Admission.HOLD:
                    yield producer, decision
                    return
            # Not under the lock: the pause may have to look at this very producer before it can end.
            await self._resumed(decision.names[0], deadline - self._clock(), who)
            if self._clock() >= deadline:
                raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, f"{decision.names[0]} is being promoted")

    async def _resumed(self, topic: str, timeout_s: float, who: tuple[str, str]) -> None:
        """Wait until the topic's pause is over."""
        route = self._routing.current.topics.get(topic)
        if route is None or route.phase is not WritePhase.PAUSED:
            return
        resumed = asyncio.Event()
        self._stats.held[topic] = self._stats.held.get(topic, 0) + 1
        waited = self._stats.stalls.began(topic, route.pause.in_force(), *who)
        leave = route.pause.wait(resumed.set)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, timeout_s)):
                    await resumed.wait()
        finally:
            waited()
            leave()

    @contextmanager
    def begun(self, producer: TransactionalProducer, side: TransactionSide, wanted: Wanted) -> Iterator[bool]:
        """What is wanted is on its way to the place's coordinator in the block. Yields whether it opens a transaction
        there.

        A call that is Refused has changed nothing there, and so opens none.

        It is decided anew. Since `add` did, seconds may have gone by (the client's rights were asked for, an identity
        obtained at the place), and a write pause that began meanwhile knows nothing of a transaction that has not begun
        here: it would be acknowledged, and the transaction's marker would come to the source behind the cutover.

        Raises:
            Refused: CONCURRENT_TRANSACTIONS: it does not go there any more; nothing was sent.
        """
        names = wanted(producer)
        if producer.decide(names, self._placements.failback_epoch()) != Decision(Admission.GO, side):
            raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, f"{', '.join(names)}: a write pause began meanwhile")
        opened = producer.begin(side, set(names), self._clock())
        with in_transit(producer):
            try:
                yield opened
            except Refused:
                if opened:
                    producer.refused()
                raise

    def taken(self, producer: TransactionalProducer, opened: bool, codes: Collection[int]) -> None:
        """A coordinator has answered, with an error code for each that was to be taken in."""
        if 0 in codes:
            producer.confirm()
        elif opened:
            producer.refused()
        self._transactions.changed()
