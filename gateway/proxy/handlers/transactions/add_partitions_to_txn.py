"""AddPartitionsToTxn: v0-3 (v4+ is between brokers and not advertised).

Behaviour: the transaction lives where its topics are written: on the source while they are mirrored, under the
identity that the gateway has for the producer there, on the target otherwise, where the client's identity is its own.
* a topic under a write pause begins no transaction: held at most 8 s, then CONCURRENT_TRANSACTIONS, which
  every client retries; a transaction that was open before goes on
* topics of both clusters do not fit in one transaction: TOPIC_AUTHORIZATION_FAILED for those on the other side, which
  every client answers by aborting, and OPERATION_NOT_ATTEMPTED for the rest, as a broker answers a mixed request. In
  one that has offsets of a group in it: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which is fatal for the producer; see
  `add_offsets_to_txn.py`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import structlog

from gateway.kafka.topic_partition import TopicPartition
from gateway.proxy.handlers.transactions.txn_codes import answered_code
from gateway.proxy.rules.transactional_ids import OWN, TARGET, ProducerIdentity, TransactionSide, id_at
from gateway.proxy.rules.transactional_producers import Admission, Decision, TopicPlacement, TransactionalProducer
from gateway.proxy.transactions.coordinator_calls import (
    Action,
    forward_own,
    require_transactional,
    require_transactional_first,
    require_writable,
    serve,
)
from gateway.proxy.transactions.coordinators import Lost
from gateway.proxy.transactions.group_sides import is_group
from protocol.apis import ApiKey
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from gateway.cutover.write_pause.rules.routing import RoutingTable
    from gateway.proxy.produce.forwarder import Forwarder
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session
    from gateway.proxy.transactions.adding import TransactionAdding
    from gateway.proxy.transactions.placement import TopicPlacements
    from gateway.proxy.transactions.transactions import Transactions

_KEY = int(ApiKey.ADD_PARTITIONS_TO_TXN)
_log = structlog.get_logger("lockgate.proxy")
_Topics = dict[str, list[int]]


class AddPartitionsToTxnHandler:
    """See the module's docstring."""

    def __init__(
        self,
        *,
        adding: TransactionAdding,
        transactions: Transactions,
        placements: TopicPlacements,
        routing: RoutingTable,
        forwarder: Forwarder,
        clock: Callable[[], float],
    ) -> None:
        self.adding = adding
        self.transactions = transactions
        self.placements = placements
        self.routing = routing
        self.forwarder = forwarder
        self.clock = clock

    def intercepts(self, session: Session) -> bool:
        return self.routing.current.intercepts_produce

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()
        call = _Call(self, session, exchange, request)
        serve(session, call.run, call.refuse)


class _Call:
    """One request."""

    def __init__(self, handler: AddPartitionsToTxnHandler, session: Session, exchange: Exchange, request: Any) -> None:
        self._handler = handler
        self._session = session
        self._exchange = exchange
        self._name: str = request.v3_and_below_transactional_id
        self._client = ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        self._topics: _Topics = {topic.name: list(topic.partitions) for topic in request.v3_and_below_topics}

    async def run(self) -> Action:
        """Decide and, unless the request goes on to the target as it is, carry it out."""
        transactions = self._handler.transactions
        came_by = self._session.id
        await require_transactional_first(self._session, self._name)
        who = self._session.client_id or "", self._session.host
        adding = self._handler.adding.add(self._name, self._client, came_by, self._wanted, who)
        async with adding as (producer, decision):
            if decision.verdict is Admission.REFUSE:
                producer.turned_away()
                has_offsets = producer.open is not None and any(map(is_group, producer.open.topics))
                return lambda: self._refuse_mixed(decision, has_offsets)
            if decision.side == OWN:
                return forward_own(self._session, self._exchange, producer, lambda: self._begin(producer))
            codes = await self._elsewhere(producer, decision.side)
            if await transactions.has_newer(producer, decision.side, next(iter(codes.values()), 0)):
                codes = await self._elsewhere(producer, decision.side)
            return lambda: self._reply(codes)

    def _wanted(self, _: TransactionalProducer) -> Mapping[str, TopicPlacement]:
        return self._handler.placements.of(self._topics)

    def _begin(self, producer: TransactionalProducer) -> Callable[[Any], None]:
        opened = producer.begin(OWN, set(self._topics), self._handler.clock())

        def answered(response: Any) -> None:
            results = response.results_by_topic_v3_and_below
            codes = [p.partition_error_code for t in results for p in t.results_by_partition]
            self._handler.adding.taken(producer, opened, codes)

        return answered

    async def _elsewhere(self, producer: TransactionalProducer, side: TransactionSide) -> dict[TopicPartition, int]:
        """Error code by (topic, partition), from the coordinator of the place."""
        await require_transactional(self._session, self._name)
        writable = await require_writable(self._session, self._topics)
        if denied := [topic for topic in self._topics if topic not in writable or not self._by_clients(topic, side)]:
            return self._codes(denied)
        transactions = self._handler.transactions
        identity = await transactions.identity_at(producer, side)
        names = self._names(side)
        request = _request(id_at(self._name, side), identity, {names[t]: ps for t, ps in self._topics.items()})
        with self._handler.adding.begun(producer, side, self._wanted) as opened:
            try:
                answer = await transactions.coordinators.call(
                    side, self._name, request, min(self._exchange.api_version, 3)
                )
            except Lost:
                for topic in self._topics:
                    self._handler.forwarder.unknown(topic)
                raise
        back = {name: topic for topic, name in names.items()}
        codes = {
            (back.get(topic.name, topic.name), part.partition_index): part.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        }
        self._handler.adding.taken(producer, opened, codes.values())
        return codes

    def _by_clients(self, topic: str, side: TransactionSide) -> bool:
        """Whether the link lets clients write the topic at the place."""
        route = self._handler.routing.current.topics.get(topic)
        return side.cluster == TARGET or route is None or route.by_clients

    def _names(self, side: TransactionSide) -> dict[str, str]:
        """The topics' names at the place."""
        routes = self._handler.routing.current.topics
        if side.cluster == TARGET:
            return {topic: topic for topic in self._topics}
        return {topic: routes[topic].source_topic if topic in routes else topic for topic in self._topics}

    # -- answers -------------------------------------------------------------------------------------------

    def refuse(self, code: int) -> None:
        """Answer every partition with this code."""
        code = answered_code(_KEY, self._exchange.api_version, code)
        self._reply({(topic, p): code for topic, partitions in self._topics.items() for p in partitions})

    def _codes(self, denied: list[str]) -> dict[TopicPartition, int]:
        refused, rest = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), int(ErrorCode.OPERATION_NOT_ATTEMPTED)
        return {
            (topic, p): refused if topic in denied else rest
            for topic, partitions in self._topics.items()
            for p in partitions
        }

    def _refuse_mixed(self, decision: Decision, has_offsets: bool) -> None:
        _log.warning(
            "a transaction over topics of both clusters was refused; promote its topics together, as one set",
            transactional_id=self._name,
            transaction_at=str(decision.side),
            elsewhere=list(decision.names),
        )
        if has_offsets:
            self.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return
        self._reply(self._codes(list(decision.names)))

    def _reply(self, codes: dict[TopicPartition, int]) -> None:
        kind = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
        part = kind.AddPartitionsToTxnPartitionResult
        unanswered = int(ErrorCode.OPERATION_NOT_ATTEMPTED)
        results = [
            kind(
                name=topic,
                results_by_partition=[
                    part(partition_index=p, partition_error_code=codes.get((topic, p), unanswered)) for p in partitions
                ],
            )
            for topic, partitions in self._topics.items()
        ]
        response = AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=results)
        exchange = self._exchange
        exchange.reply_framed(encode_response(response, _KEY, exchange.api_version, exchange.correlation_id))


def _request(transactional_id: str, identity: ProducerIdentity, topics: _Topics) -> AddPartitionsToTxnRequest:
    kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[kind(name=topic, partitions=partitions) for topic, partitions in topics.items()],
    )
