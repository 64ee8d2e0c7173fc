"""A Produce that belongs to a transaction: whose it is, and where the transaction lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.cutover.write_pause.rules.routing import Routing, WritePhase
from gateway.proxy.rules.transactional_ids import ProducerIdentity
from gateway.proxy.rules.transactional_producers import TransactionalWrite
from gateway.proxy.session.exchange import Exchange
from gateway.proxy.session.session import Session
from gateway.proxy.transactions.coordinator_calls import (
    may_transact,
    require_transactional,
    require_transactional_first,
    serve,
)
from gateway.proxy.transactions.placement import TopicPlacements
from gateway.proxy.transactions.transactions import Transactions
from protocol.batch.stamp import stamp_of
from protocol.errors import ErrorCode
from protocol.produce import ProducePart


def concerns(placements: TopicPlacements, routing: Routing, parts: Sequence[ProducePart]) -> bool:
    """True when a transactional Produce of these parts may have to go elsewhere than to the client's own broker."""
    if placements.failback_epoch():
        return True
    routes = routing.topics
    return any(part.topic in routes and routes[part.topic].phase is not WritePhase.SWITCHED for part in parts)


def find_write(
    transactions: Transactions,
    session: Session,
    exchange: Exchange,
    transactional_id: str,
    parts: Sequence[ProducePart],
    again: Callable[[], None],
    refuse: Callable[[ErrorCode, str], None],
) -> TransactionalWrite | None:
    """The write, or None: then `again` or `refuse` is called, now or later."""
    stamp = stamp_of(exchange.body[parts[0].start : parts[0].end])
    client = ProducerIdentity(stamp.producer_id, stamp.epoch)
    producer = transactions.known(transactional_id, client)
    if producer is None or producer.open is None or not may_transact(session, transactional_id):
        _look_up(transactions, session, transactional_id, client, again, refuse)
        return None
    side = producer.open.side
    identity = producer.record.at(side)
    if identity is None:
        refuse(ErrorCode.INVALID_TXN_STATE, f"{transactional_id} has no identity where its transaction is")
        return None
    return TransactionalWrite(producer, side, identity)


def _look_up(
    transactions: Transactions,
    session: Session,
    transactional_id: str,
    client: ProducerIdentity,
    again: Callable[[], None],
    refuse: Callable[[ErrorCode, str], None],
) -> None:
    async def work() -> Callable[[], None]:
        await require_transactional_first(session, transactional_id)
        async with transactions.lock(transactional_id):
            known = transactions.known(transactional_id, client) is not None
            producer = await transactions.identify(transactional_id, client)
            if known and producer.open is None:  # begun through another gateway?
                await transactions.look_again(producer)
        await require_transactional(session, transactional_id)
        if producer.open is None:
            return lambda: refuse(ErrorCode.INVALID_TXN_STATE, f"{transactional_id} has no transaction")
        return again

    def refused(code: int) -> None:
        # Produce has INVALID_PRODUCER_EPOCH for what others call fenced; a coordinator that is not there is retried.
        if code == ErrorCode.PRODUCER_FENCED:
            refuse(ErrorCode.INVALID_PRODUCER_EPOCH, "a newer instance of the producer was initialised")
        elif code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            refuse(ErrorCode.NOT_ENOUGH_REPLICAS, "who the producer is cannot be found out now")
        else:
            refuse(ErrorCode(code), "the producer is not known")

    serve(session, work, refused)
