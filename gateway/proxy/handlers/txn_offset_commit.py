"""TxnOffsetCommit: v0-4 (v5 is transactions v2, v6 names topics by id; neither is advertised).

Behaviour: follows the transaction to its cluster. To a source it goes under the producer's identity there, to the
group's coordinator; its offsets are the source's own, since the group still reads there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.domain.transactional_ids import OWN, Place, ProducerIdentity, id_at
from gateway.domain.transactional_producers import TransactionalProducer
from gateway.proxy.coordinator_calls import Action, in_transit, require_transactional, serve
from gateway.proxy.group_sides import as_name
from gateway.proxy.handlers.txn_codes import answered_code
from gateway.proxy.places import Refused
from protocol.apis import ApiKey
from protocol.codec import decode_request, encode_response
from protocol.errors import ErrorCode
from protocol.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session

_KEY = int(ApiKey.TXN_OFFSET_COMMIT)
_CAP = 4
_Codes = dict[tuple[str, int], int]


class TxnOffsetCommitHandler:
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
            lambda code: self._reply(exchange, request, code),
        )

    async def _serve(self, session: Session, exchange: Exchange, request: Any) -> Action:
        transactions = self._context.transactions
        client = ProducerIdentity(request.producer_id, request.producer_epoch)
        async with transactions.lock(request.transactional_id):
            producer = await transactions.identify(request.transactional_id, client)
            looked = True
            if not self._has(producer, request.group_id):  # added through another gateway?
                looked = await transactions.look_again(producer)
            transaction = producer.open
            if not self._has(producer, request.group_id):
                if producer.in_transit and not looked:
                    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                    raise Refused(code, f"a request of {request.transactional_id!r} has no answer yet")
                code = ErrorCode.INVALID_TXN_STATE
                raise Refused(code, f"{request.transactional_id!r} has not added group {request.group_id!r}")
            place = OWN if transaction is None else transaction.place
            if place == OWN:
                return exchange.forward
            await require_transactional(session, request.transactional_id)
            codes = await self._elsewhere(exchange, request, producer, place)
            return lambda: self._reply(exchange, request, 0, codes)

    @staticmethod
    def _has(producer: TransactionalProducer, group: str) -> bool:
        """The transaction has the group; one that was found open has some: coordinators do not tell which."""
        names = producer.open.topics if producer.open is not None else ()
        return as_name(group) in names or any(name.startswith("__consumer_offsets") for name in names)

    async def _elsewhere(
        self, exchange: Exchange, request: Any, producer: TransactionalProducer, place: Place
    ) -> _Codes:
        transactions = self._context.transactions
        identity = await transactions.identity_at(producer, place)
        routes = self._context.routing.current.topics
        group = self._context.routing.current.group_at(place.cluster, request.group_id)
        names = {t.name: routes[t.name].source_topic if t.name in routes else t.name for t in request.topics}
        if not place.cluster:
            names = {topic: topic for topic in names}
        kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        message = TxnOffsetCommitRequest(
            transactional_id=id_at(request.transactional_id, place),
            group_id=group,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            topics=[kind(name=names[topic.name], partitions=topic.partitions) for topic in request.topics],
        )
        with in_transit(producer):
            cap = min(_CAP, exchange.api_version)
            answer = await transactions.places.call_group(place, group, message, cap)
        back = {name: topic for topic, name in names.items()}
        codes = {
            (back.get(topic.name, topic.name), part.partition_index): part.error_code
            for topic in answer.topics
            for part in topic.partitions
        }
        if any(code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE) for code in codes.values()):
            transactions.places.cluster(place).invalidate_coordinator(group)
        return codes

    def _reply(self, exchange: Exchange, request: Any, code: int, codes: _Codes | None = None) -> None:
        kind = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
        part = kind.TxnOffsetCommitResponsePartition
        found = codes or {}
        topics = [
            kind(
                name=topic.name,
                partitions=[
                    part(
                        partition_index=p.partition_index,
                        error_code=answered_code(
                            _KEY, exchange.api_version, found.get((topic.name, p.partition_index), code)
                        ),
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        response = TxnOffsetCommitResponse(throttle_time_ms=0, topics=topics)
        exchange.reply_framed(encode_response(response, _KEY, exchange.api_version, exchange.correlation_id))
