"""AddPartitionsToTxn: v0-3 (v4+ is between brokers).

Behaviour: a transaction that would take in a mirror topic is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED
before anything is written: its markers belong to the target's coordinator, its records would be on the source.
Transactions over other topics pass untouched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from gateway.domain.routing import Phase
from protocol.codec import decode_request, encode_response
from protocol.errors import ErrorCode
from protocol.messages import AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session

_log = structlog.get_logger("lockgate.proxy")
_BETWEEN_BROKERS = 4


class AddPartitionsToTxnHandler:
    """See the module's docstring."""

    def __init__(self, context: ProxyContext) -> None:
        self._context = context

    def wants(self, session: Session) -> bool:
        return self._context.routing.current.intercepts_produce

    def handle(self, session: Session, exchange: Exchange) -> None:
        if exchange.api_version >= _BETWEEN_BROKERS:
            exchange.forward()
            return
        request = decode_request(exchange.api_key, exchange.api_version, exchange.body)
        routes = self._context.routing.current.topics
        topics = request.v3_and_below_topics
        mirrored = [t.name for t in topics if t.name in routes and routes[t.name].phase is not Phase.SWITCHED]
        if not mirrored:
            exchange.forward()
            return
        name = request.v3_and_below_transactional_id
        _log.warning("transaction over a mirror topic refused", transactional_id=name, topic=mirrored[0])
        response = _refusal(topics)
        exchange.reply_framed(
            encode_response(response, exchange.api_key, exchange.api_version, exchange.correlation_id)
        )


def _refusal(topics: Any) -> AddPartitionsToTxnResponse:
    code = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    kind = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    part = kind.AddPartitionsToTxnPartitionResult
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0,
        results_by_topic_v3_and_below=[
            kind(
                name=topic.name,
                results_by_partition=[part(partition_index=p, partition_error_code=code) for p in topic.partitions],
            )
            for topic in topics
        ],
    )
