"""AddOffsetsToTxn: v0-4 (its versions stop there).

Behaviour: offsets are committed where the group commits: on the target once it is promoted, on the source before. In a
transaction whose records go to the other cluster they would not be one transaction: GROUP_AUTHORIZATION_FAILED, which
every client answers by aborting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from gateway.domain.transactional_ids import OWN, Place, ProducerIdentity, id_at
from gateway.domain.transactional_producers import TransactionalProducer, Verdict
from gateway.proxy.coordinator_calls import Action, forward_own, require_transactional, serve
from gateway.proxy.group_sides import as_name, group_standing
from gateway.proxy.handlers.txn_codes import answered_code
from gateway.proxy.taking_in import begun, take_in, taken
from protocol.apis import ApiKey
from protocol.codec import decode_request, encode_response
from protocol.errors import ErrorCode
from protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session

_KEY = int(ApiKey.ADD_OFFSETS_TO_TXN)
_CAP = 3
_log = structlog.get_logger("lockgate.proxy")


class AddOffsetsToTxnHandler:
    """See the module's docstring."""

    def __init__(self, context: ProxyContext) -> None:
        self._context = context

    def wants(self, session: Session) -> bool:
        return self._context.routing.current.intercepts_produce

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = decode_request(_KEY, exchange.api_version, exchange.body)
        serve(
            session,
            lambda: self._serve(session, exchange, request),
            lambda code: self._reply(exchange, code),
        )

    async def _serve(self, session: Session, exchange: Exchange, request: Any) -> Action:
        context, name = self._context, as_name(request.group_id)
        client = ProducerIdentity(request.producer_id, request.producer_epoch)
        async with context.transactions.lock(request.transactional_id):
            producer = await context.transactions.identify(request.transactional_id, client, session.id)
        standing = await group_standing(context, producer, request.group_id)
        async with take_in(context, request.transactional_id, client, session.id, lambda _: {name: standing}) as (
            producer,
            decision,
        ):
            if decision.verdict is Verdict.REFUSE:
                producer.turned_away()
                return self._refuse_mixed(exchange, request, str(decision.place))
            if decision.place != OWN:
                await require_transactional(session, request.transactional_id, request.group_id)
                code = await self._elsewhere(exchange, request, producer, decision.place)
                if await context.transactions.has_newer(producer, decision.place, code):
                    code = await self._elsewhere(exchange, request, producer, decision.place)
                return lambda: self._reply(exchange, code)
            opened = producer.begin(OWN, {name}, context.clock())
            return lambda: forward_own(
                exchange, producer, lambda answer: taken(context, producer, opened, [answer.error_code])
            )

    async def _elsewhere(self, exchange: Exchange, request: Any, producer: TransactionalProducer, place: Place) -> int:
        transactions = self._context.transactions
        identity = await transactions.identity_at(producer, place)
        message = AddOffsetsToTxnRequest(
            transactional_id=id_at(request.transactional_id, place),
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=self._context.routing.current.group_at(place.cluster, request.group_id),
        )
        with begun(self._context, producer, place, {as_name(request.group_id)}) as opened:
            cap = min(_CAP, exchange.api_version)
            answer = await transactions.places.call(place, request.transactional_id, message, cap)
        transactions.places.noticed(place, request.transactional_id, answer.error_code)
        taken(self._context, producer, opened, [answer.error_code])
        return int(answer.error_code)

    def _refuse_mixed(self, exchange: Exchange, request: Any, place: str) -> Action:
        _log.warning(
            "offsets of a group on the other cluster were refused to a transaction; promote the topics that it writes "
            "before the group that it reads with",
            transactional_id=request.transactional_id,
            transaction_at=place,
            group=request.group_id,
        )
        return lambda: self._reply(exchange, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def _reply(self, exchange: Exchange, code: int) -> None:
        response = AddOffsetsToTxnResponse(
            throttle_time_ms=0, error_code=answered_code(_KEY, exchange.api_version, code)
        )
        exchange.reply_framed(encode_response(response, _KEY, exchange.api_version, exchange.correlation_id))
