"""AddOffsetsToTxn: v0-4 (its versions stop there).

Behaviour: offsets are committed where the group commits: on the target once it is promoted, on the source before. One
that changes sides with topics is held while their writes are paused, as these are. In a
transaction whose records go to the other cluster they would not be one transaction, and it is refused for good:
TRANSACTIONAL_ID_AUTHORIZATION_FAILED is fatal for the producer (Java, librdkafka). GROUP_AUTHORIZATION_FAILED would
only abort the transaction, and a client that went on could commit its offsets with the next one (Java 4.3.1 remembers
what it has not sent), or read on behind records that were never processed. An application that begins anew begins where
its group has committed.

A promoted group whose gate is shut goes home, or stays when that is given up: clients ask again until its record says
which (COORDINATOR_LOAD_IN_PROGRESS). Where its topics stay, the write pause may be over before the gate opens.

When no producer retries anything from before a cutover any more, transactions pass as they are: they live on the
target. One that would take in a group which is gated yet, as after a promote with --force, is refused as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import structlog

from gateway.proxy.handlers.transactions.txn_codes import answered_code
from gateway.proxy.rules.transactional_ids import OWN, ProducerIdentity, TransactionSide, id_at
from gateway.proxy.rules.transactional_producers import Admission, TopicPlacement, TransactionalProducer
from gateway.proxy.transactions.coordinator_calls import (
    Action,
    forward_own,
    require_transactional,
    require_transactional_first,
    serve,
)
from gateway.proxy.transactions.group_sides import as_name
from protocol.apis import ApiKey
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from gateway.cutover.write_pause.rules.routing import RoutingTable
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session
    from gateway.proxy.transactions.adding import TransactionAdding, Wanted
    from gateway.proxy.transactions.group_sides import GroupSides
    from gateway.proxy.transactions.transactions import Transactions

_KEY = int(ApiKey.ADD_OFFSETS_TO_TXN)
_CAP = 3
_log = structlog.get_logger("lockgate.proxy")


class AddOffsetsToTxnHandler:
    """See the module's docstring."""

    def __init__(
        self,
        *,
        adding: TransactionAdding,
        groups: GroupSides,
        transactions: Transactions,
        routing: RoutingTable,
        clock: Callable[[], float],
    ) -> None:
        self._adding = adding
        self._groups = groups
        self._transactions = transactions
        self._routing = routing
        self._clock = clock

    def intercepts(self, session: Session) -> bool:
        return self._routing.current.intercepts_produce or self._groups.any_gated

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()
        if self._routing.current.intercepts_produce:
            answered = self._serve
        elif self._groups.is_open(request.group_id):
            exchange.forward()
            return
        else:
            answered = self._on_target
        serve(
            session,
            lambda: answered(session, exchange, request),
            lambda code: self._reply(exchange, code),
        )

    async def _on_target(self, session: Session, exchange: Exchange, request: Any) -> Action:
        """No producer is followed: all transactions are on the target."""
        await require_transactional_first(session, request.transactional_id, request.group_id)
        await self._groups.known(request.group_id)
        if not self._groups.is_open(request.group_id):
            self._groups.require_settled(request.group_id)
            return self._refuse_mixed(exchange, request, str(OWN))
        return exchange.forward

    async def _serve(self, session: Session, exchange: Exchange, request: Any) -> Action:
        name = as_name(request.group_id)
        client = ProducerIdentity(request.producer_id, request.producer_epoch)
        await require_transactional_first(session, request.transactional_id, request.group_id)
        await self._groups.known(request.group_id)

        def wanted(_: TransactionalProducer) -> Mapping[str, TopicPlacement]:
            return {name: self._groups.placement(request.group_id)}

        who = session.client_id or "", session.host
        adding = self._adding.add(request.transactional_id, client, session.id, wanted, who)
        async with adding as (producer, decision):
            if decision.verdict is Admission.REFUSE:
                producer.turned_away()
                return self._refuse_mixed(exchange, request, str(decision.side))
            if decision.side != OWN:
                await require_transactional(session, request.transactional_id, request.group_id)
                code = await self._elsewhere(exchange, request, producer, decision.side, wanted)
                if await self._transactions.has_newer(producer, decision.side, code):
                    code = await self._elsewhere(exchange, request, producer, decision.side, wanted)
                return lambda: self._reply(exchange, code)
            return forward_own(session, exchange, producer, lambda: self._begin(producer, name))

    def _begin(self, producer: TransactionalProducer, name: str) -> Callable[[Any], None]:
        opened = producer.begin(OWN, {name}, self._clock())
        return lambda answer: self._adding.taken(producer, opened, [answer.error_code])

    async def _elsewhere(
        self,
        exchange: Exchange,
        request: Any,
        producer: TransactionalProducer,
        side: TransactionSide,
        wanted: Wanted,
    ) -> int:
        transactions = self._transactions
        identity = await transactions.identity_at(producer, side)
        message = AddOffsetsToTxnRequest(
            transactional_id=id_at(request.transactional_id, side),
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=self._routing.current.group_at(side.cluster, request.group_id),
        )
        with self._adding.begun(producer, side, wanted) as opened:
            cap = min(_CAP, exchange.api_version)
            answer = await transactions.coordinators.call(side, request.transactional_id, message, cap)
        self._adding.taken(producer, opened, [answer.error_code])
        return int(answer.error_code)

    def _refuse_mixed(self, exchange: Exchange, request: Any, side: str) -> Action:
        _log.warning(
            "offsets of a group on the other cluster were refused to a transaction; promote the group together with "
            "the topics that it writes: mirror promote --groups",
            transactional_id=request.transactional_id,
            transaction_at=side,
            group=request.group_id,
        )
        return lambda: self._reply(exchange, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    def _reply(self, exchange: Exchange, code: int) -> None:
        response = AddOffsetsToTxnResponse(
            throttle_time_ms=0, error_code=answered_code(_KEY, exchange.api_version, code)
        )
        exchange.reply_framed(encode_response(response, _KEY, exchange.api_version, exchange.correlation_id))
