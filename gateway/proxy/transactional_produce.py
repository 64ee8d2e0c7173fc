"""A Produce that belongs to a transaction: whose it is, where the transaction lives, how its batches are restamped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gateway.domain.routing import Phase
from gateway.domain.transactional_ids import OWN, Place, ProducerIdentity, id_at
from gateway.domain.transactional_producers import TransactionalProducer
from gateway.proxy.coordinator_calls import may_transact, require_transactional, serve
from gateway.proxy.produce_plan import Part
from protocol.errors import ErrorCode
from protocol.producer_stamp import restamped, stamp_of
from protocol.wire import Buffer

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session


class TransactionalWrite:
    """One request of a transaction. `passing`: topics that its transaction has, which no fence holds."""

    __slots__ = ("_identity", "passing", "place", "producer", "transactional_id")

    def __init__(self, producer: TransactionalProducer, place: Place, identity: ProducerIdentity) -> None:
        self.producer = producer
        self.place = place
        self._identity = identity
        self.transactional_id = id_at(producer.transactional_id, place)
        self.passing = frozenset(producer.open.topics) if producer.open is not None else frozenset()

    @property
    def is_own(self) -> bool:
        """Nothing is restamped."""
        return self.place == OWN

    def records(self, batch: Buffer) -> Buffer:
        """The batch as it goes to the transaction's place."""
        return batch if self.is_own else restamped(batch, *self._identity)


def concerns(context: ProxyContext, parts: Sequence[Part]) -> bool:
    """True when a transactional Produce of these parts may have to go elsewhere than to the client's own broker."""
    if context.standings.generation():
        return True
    routes = context.routing.current.topics
    return any(part.topic in routes and routes[part.topic].phase is not Phase.SWITCHED for part in parts)


def find_write(
    session: Session,
    exchange: Exchange,
    transactional_id: str,
    parts: Sequence[Part],
    again: Callable[[], None],
    refuse: Callable[[ErrorCode, str], None],
) -> TransactionalWrite | None:
    """The write, or None: then `again` or `refuse` is called, now or later."""
    context = session.context
    stamp = stamp_of(exchange.body[parts[0].start : parts[0].end])
    client = ProducerIdentity(stamp.producer_id, stamp.epoch)
    producer = context.transactions.known(transactional_id, client)
    if producer is None or producer.open is None or not may_transact(session, transactional_id):
        _look_up(session, transactional_id, client, again, refuse)
        return None
    place = producer.open.place
    identity = producer.record.at(place)
    if identity is None:
        refuse(ErrorCode.INVALID_TXN_STATE, f"{transactional_id} has no identity where its transaction is")
        return None
    return TransactionalWrite(producer, place, identity)


def _look_up(
    session: Session,
    transactional_id: str,
    client: ProducerIdentity,
    again: Callable[[], None],
    refuse: Callable[[ErrorCode, str], None],
) -> None:
    transactions = session.context.transactions

    async def work() -> Callable[[], None]:
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
