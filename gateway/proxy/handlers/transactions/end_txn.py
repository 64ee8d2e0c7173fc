"""EndTxn: v0-4 (v5 is transactions v2, KIP-890, and not advertised).

Behaviour: goes to the coordinator that has the transaction, once, after every Produce of it was answered. When the
answer is lost the client's connection closes: only the client may try again, and then it goes to the same coordinator,
also when the topics were promoted in between, all that there are. Then nothing else of transactions is looked at any
more, and the target is asked first: what is open there is ended there, whether or not a source can still be reached.

Behind a failback a coordinator of the source cannot know that an instance which writes there directly has fenced this
one (`proxy/rules/transactional_ids.py`): then its commit is made an abort, and refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gateway.cutover.write_pause.rules.routing import RoutingTable, WritePhase
from gateway.proxy.handlers.transactions.txn_codes import answered_code
from gateway.proxy.rules.transactional_ids import OWN, ProducerIdentity, id_at
from gateway.proxy.rules.transactional_producers import TransactionalProducer
from gateway.proxy.transactions.coordinator_calls import (
    Action,
    forward_own,
    in_transit,
    pass_on,
    require_transactional,
    require_transactional_first,
    serve,
)
from gateway.proxy.transactions.coordinators import Refused, Unseen
from gateway.proxy.transactions.transactions import Transactions
from protocol.apis import ApiKey
from protocol.codec import encode_response
from protocol.errors import ErrorCode, is_retriable
from protocol.messages import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_KEY = int(ApiKey.END_TXN)
_CAP = 4
_PRODUCE_S = 10.0


class EndTxnHandler:
    """See the module's docstring."""

    def __init__(self, *, routing: RoutingTable, transactions: Transactions) -> None:
        self._routing = routing
        self._transactions = transactions

    def intercepts(self, session: Session) -> bool:
        routing = self._routing.current
        return routing.intercepts_produce or routing.ends_repeated

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()

        async def work() -> Action:
            await require_transactional_first(session, request.transactional_id)
            async with self._transactions.lock(request.transactional_id):
                return await self._end(session, exchange, request)

        serve(session, work, lambda code: self._reply(exchange, code))

    async def _end(self, session: Session, exchange: Exchange, request: Any) -> Action:
        transactions = self._transactions
        client = ProducerIdentity(request.producer_id, request.producer_epoch)
        if not self._routing.current.intercepts_produce and await self._is_at_target(request.transactional_id, client):
            return await self._end_at_target(session, exchange, transactions.known(request.transactional_id, client))
        producer = await transactions.identify(request.transactional_id, client, session.id, to_end=True)
        if not request.committed and await self._has_nothing(producer):
            return lambda: self._reply(exchange, ErrorCode.NONE)  # to abort nothing is no error of the client
        await self._produced(producer)
        if self._is_stranded(producer):
            producer.ended(markers_written=True)
            code = ErrorCode.INVALID_TXN_STATE if request.committed else ErrorCode.NONE
            return lambda: self._reply(exchange, code)
        side = producer.end_place(commit=request.committed)
        if side == OWN:
            return forward_own(session, exchange, producer, lambda: self._begin(producer, commit=request.committed))
        await require_transactional(session, request.transactional_id)
        identity = producer.record.at(side)
        if identity is None:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{request.transactional_id!r} has no id at {side}")
        fenced = request.committed and await transactions.is_fenced_at_source(producer, side)
        committed = request.committed and not fenced
        message = EndTxnRequest(
            transactional_id=id_at(request.transactional_id, side),
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=committed,
        )
        producer.end(commit=committed)
        with in_transit(producer):
            try:
                cap = min(_CAP, exchange.api_version)
                answer = await transactions.coordinators.call(side, request.transactional_id, message, cap)
            except Refused:
                producer.not_ended()
                raise
        self._ended(producer, answer.error_code)
        return lambda: self._reply(exchange, ErrorCode.PRODUCER_FENCED if fenced else answer.error_code)

    async def _is_at_target(self, transactional_id: str, client: ProducerIdentity) -> bool:
        """The transaction is open on the target, or nobody can tell: a target from before Kafka 3.0.

        Raises:
            Refused, Lost: the target does not answer.
        """
        try:
            seen = await self._transactions.coordinators.describe(OWN, transactional_id)
        except Unseen:
            return True
        return seen is not None and seen.is_open and seen.identity == client

    async def _end_at_target(
        self, session: Session, exchange: Exchange, producer: TransactionalProducer | None
    ) -> Action:
        """`producer`: as it is followed here; None when it is not."""
        if producer is None:
            return pass_on(session, exchange)
        await self._produced(producer)
        producer.found_at_own(session.context.clock())
        commit = exchange.request().committed
        return forward_own(session, exchange, producer, lambda: self._begin(producer, commit=commit))

    def _begin(self, producer: TransactionalProducer, *, commit: bool) -> Callable[[Any], None]:
        producer.end(commit=commit)
        return lambda answer: self._ended(producer, answer.error_code)

    async def _has_nothing(self, producer: TransactionalProducer) -> bool:
        """What was to open its transaction has opened none anywhere, so that there is nothing to abort.

        The target would take the abort for a repeat of how the last transaction ended there, and refuse it for good.
        """
        if producer.begun_in_vain:
            return True
        if producer.open is not None or not await self._transactions.look_again(producer):
            return False
        return producer.open is None and producer.last is None

    def _is_stranded(self, producer: TransactionalProducer) -> bool:
        """Its transaction is on a source that was failed over: a promote would have waited for its end.

        What is not committed there by now is not on the target, and never will be: as good as aborted.
        """
        transaction = producer.open
        if transaction is None or not transaction.side.cluster:
            return False
        routes = self._routing.current.topics
        mirrored = [routes[topic] for topic in transaction.topics if topic in routes and routes[topic].is_mirrored]
        return bool(mirrored) and all(route.phase is WritePhase.SWITCHED for route in mirrored)

    async def _produced(self, producer: TransactionalProducer) -> None:
        """Wait until no Produce of the producer is in flight to a broker: its end must not overtake data."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PRODUCE_S):
                await self._transactions.until(lambda: not producer.in_flight)
        if producer.in_flight:
            raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, f"{producer.in_flight} produce requests are in flight")

    def _ended(self, producer: TransactionalProducer, code: int) -> None:
        if code and is_retriable(code):
            producer.not_ended()
        else:  # ended; or the coordinator says that there is nothing of this producer to end
            producer.ended()
        self._transactions.changed()

    def _reply(self, exchange: Exchange, code: int) -> None:
        response = EndTxnResponse(throttle_time_ms=0, error_code=answered_code(_KEY, exchange.api_version, code))
        exchange.reply_framed(encode_response(response, _KEY, exchange.api_version, exchange.correlation_id))
