"""Taking topics and groups into a transaction: the producer found, the place decided, a fence waited for, an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from gateway.domain.transactional_ids import Place, ProducerIdentity
from gateway.domain.transactional_producers import Decision, Standing, TransactionalProducer, Verdict
from gateway.proxy.coordinator_calls import in_transit
from gateway.proxy.places import Refused
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext

HOLD_S = 8.0

Wanted = Callable[[TransactionalProducer], Mapping[str, Standing]]


@asynccontextmanager
async def take_in(
    context: ProxyContext, transactional_id: str, client: ProducerIdentity, came_by: int, wanted: Wanted
) -> AsyncIterator[tuple[TransactionalProducer, Decision]]:
    """The producer, under its lock, and where what it wants goes: GO or REFUSE. Waits while a fence holds it.

    Raises:
        Refused: CONCURRENT_TRANSACTIONS when the fence outlasts the wait, and as `Transactions.identify`.
    """
    deadline = context.clock() + HOLD_S
    while True:
        async with context.transactions.lock(transactional_id):
            producer = await context.transactions.identify(transactional_id, client, came_by)
            decision = producer.decide(wanted(producer), context.standings.generation())
            if decision.verdict is not Verdict.GO:
                # The transaction that it does not fit into may have ended through another gateway; the one that the
                # fence here would keep from beginning may be open there, and be waited for by that gateway's fence.
                await context.transactions.look_again(producer)
                decision = producer.decide(wanted(producer), context.standings.generation())
            if decision.verdict is not Verdict.HOLD:
                yield producer, decision
                return
        # Not under the lock: the fence may have to look at this very producer before it can end.
        await _lifted(context, decision.names[0], deadline - context.clock())
        if context.clock() >= deadline:
            raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, f"{decision.names[0]} is being promoted")


async def _lifted(context: ProxyContext, topic: str, timeout_s: float) -> None:
    """Wait until the topic's fence has ended."""
    lifted = asyncio.Event()
    context.stats.held[topic] = context.stats.held.get(topic, 0) + 1
    key = context.forwarder.hold(topic, lifted.set)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, timeout_s)):
                await lifted.wait()
    finally:
        context.forwarder.leave(topic, key)


@contextmanager
def begun(context: ProxyContext, producer: TransactionalProducer, place: Place, names: set[str]) -> Iterator[bool]:
    """The names are on their way to the place's coordinator in the block. Yields whether they open a transaction there.

    A call that is Refused has changed nothing there, and so opens none.
    """
    opened = producer.begin(place, names, context.clock())
    with in_transit(producer):
        try:
            yield opened
        except Refused:
            if opened:
                producer.refused()
            raise


def taken(context: ProxyContext, producer: TransactionalProducer, opened: bool, codes: Collection[int]) -> None:
    """A coordinator has answered, with an error code for each that was to be taken in."""
    if 0 in codes:
        producer.confirm()
    elif opened:
        producer.refused()
    context.transactions.changed()
