"""TxnOffsetCommit: v0-4 (v5 is transactions v2, v6 names topics by id; neither is advertised).

Behaviour: follows the transaction to its cluster. To a source it goes under the producer's identity there, to the
group's coordinator; its offsets are the source's own, since the group still reads there. Right before it is sent the
gate is asked whether the group is still on that side: one that was promoted or sent back since the transaction took it
in gets no offsets there, which nobody would carry over. What is on its way is counted as commits are, so that a demote
waits for its end.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.kafka.topic_partition import TopicPartition
from gateway.proxy.handlers.transactions.txn_codes import answered_code
from gateway.proxy.rules.transactional_ids import OWN, ProducerIdentity, TransactionSide, id_at
from gateway.proxy.rules.transactional_producers import TransactionalProducer
from gateway.proxy.transactions.coordinator_calls import (
    Action,
    forward_own,
    in_transit,
    require_readable,
    require_transactional,
    require_transactional_first,
    serve,
)
from gateway.proxy.transactions.coordinators import Refused
from gateway.proxy.transactions.group_sides import GroupSides, as_name
from gateway.proxy.transactions.transactions import Transactions
from protocol.apis import ApiKey
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.framing import framed
from protocol.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_KEY = int(ApiKey.TXN_OFFSET_COMMIT)
_CAP = 4
_OFFSETS = "__consumer_offsets"
_Codes = dict[TopicPartition, int]


class TxnOffsetCommitHandler:
    """See the module's docstring."""

    def __init__(self, *, routing: RoutingTable, transactions: Transactions, groups: GroupSides) -> None:
        self._routing = routing
        self._transactions = transactions
        self._groups = groups

    def intercepts(self, session: Session) -> bool:
        return self._routing.current.intercepts_produce or self._groups.any_gated

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()
        follows = self._routing.current.intercepts_produce
        serve(
            session,
            lambda: (self._serve if follows else self._on_target)(session, exchange, request),
            lambda code: self._reply(exchange, request, code),
        )

    async def _on_target(self, session: Session, exchange: Exchange, request: Any) -> Action:
        """No producer is followed: all transactions are on the target."""
        await require_transactional_first(session, request.transactional_id, request.group_id)
        await self._groups.known(request.group_id)
        group = request.group_id
        return lambda: self._pass(exchange, request, lambda: self._forward(session, exchange, group))

    def _pass(self, exchange: Exchange, request: Any, forward: Callable[[], None]) -> None:
        """To the target, if the group's offsets belong there at this very moment."""
        try:
            self._groups.require_at(request.group_id, OWN)
        except Refused as refused:
            self._reply(exchange, request, refused.code)
            return
        self._groups.commit_begins(request.group_id)
        forward()

    def _forward(self, session: Session, exchange: Exchange, group: str) -> None:
        def lost() -> None:
            self._groups.commit_ends(group)

        def answered(frame: memoryview) -> bytes:
            session.on_close.remove(lost)
            lost()
            return framed(frame)

        session.on_close.append(lost)
        exchange.forward(answered)

    async def _serve(self, session: Session, exchange: Exchange, request: Any) -> Action:
        transactions = self._transactions
        client = ProducerIdentity(request.producer_id, request.producer_epoch)
        await require_transactional_first(session, request.transactional_id, request.group_id)
        async with transactions.lock(request.transactional_id):
            producer = await transactions.identify(request.transactional_id, client)
            looked = True
            if not await self._has(producer, request.group_id):  # added through another gateway?
                looked = await transactions.look_again(producer)
            transaction = producer.open
            if not await self._has(producer, request.group_id):
                if producer.in_transit and not looked:
                    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                    raise Refused(code, f"a request of {request.transactional_id!r} has no answer yet")
                code = ErrorCode.INVALID_TXN_STATE
                raise Refused(code, f"{request.transactional_id!r} has not added group {request.group_id!r}")
            side = OWN if transaction is None else transaction.side
            if side == OWN:
                await self._groups.known(request.group_id)
                group = request.group_id
                forward = forward_own(
                    session, exchange, producer, lambda: lambda _: None, lambda: self._groups.commit_ends(group)
                )
                return lambda: self._pass(exchange, request, forward)
            await require_transactional(session, request.transactional_id, request.group_id)
            readable = await require_readable(session, [topic.name for topic in request.topics])
            codes = await self._elsewhere(exchange, request, producer, side, readable)
            return lambda: self._reply(exchange, request, 0, codes)

    async def _has(self, producer: TransactionalProducer, group: str) -> bool:
        """The transaction has the group. Of one that was found open, coordinators tell which partitions of
        `__consumer_offsets` it has: the group's own has to be among them.
        """
        transaction = producer.open
        if transaction is None or as_name(group) in transaction.topics:
            return transaction is not None
        found = {name for name in transaction.topics if name.startswith(_OFFSETS)}
        if not found:
            return False
        there = self._routing.current.group_at(transaction.side.cluster, group)
        name = await self._transactions.coordinators.offsets_name_of(transaction.side, there)
        return name is None or name in found

    async def _elsewhere(
        self,
        exchange: Exchange,
        request: Any,
        producer: TransactionalProducer,
        side: TransactionSide,
        readable: Container[str],
    ) -> _Codes:
        denied = {
            (topic.name, part.partition_index): int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for topic in request.topics
            if topic.name not in readable
            for part in topic.partitions
        }
        topics = [topic for topic in request.topics if topic.name in readable]
        if not topics:
            return denied
        transactions = self._transactions
        identity = await transactions.identity_at(producer, side)
        routes = self._routing.current.topics
        group = self._routing.current.group_at(side.cluster, request.group_id)
        names = {t.name: routes[t.name].source_topic if t.name in routes else t.name for t in topics}
        if not side.cluster:
            names = {topic: topic for topic in names}
        kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        message = TxnOffsetCommitRequest(
            transactional_id=id_at(request.transactional_id, side),
            group_id=group,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            topics=[kind(name=names[topic.name], partitions=topic.partitions) for topic in topics],
        )
        await self._groups.known(request.group_id)
        self._groups.require_at(request.group_id, side)
        with in_transit(producer), self._groups.committing(request.group_id):
            cap = min(_CAP, exchange.api_version)
            answer = await transactions.coordinators.call_group(side, group, message, cap)
        back = {name: topic for topic, name in names.items()}
        return denied | {
            (back.get(topic.name, topic.name), part.partition_index): part.error_code
            for topic in answer.topics
            for part in topic.partitions
        }

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
