"""OffsetCommit: v2-9 (v10 names topics by id and is not advertised).

Behaviour: a commit for a group that is gated would race with the offsets its promote carries over: it is held
at most 1 s, then COORDINATOR_LOAD_IN_PROGRESS on every partition, which clients retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.proxy.gating import pass_or_hold
from protocol.apis import ApiKey
from protocol.codec import decode_request, encode_response
from protocol.errors import ErrorCode
from protocol.messages import OffsetCommitResponse

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session

_KEY = int(ApiKey.OFFSET_COMMIT)
HOLD_S = 1.0


class OffsetCommitHandler:
    """See the module's docstring."""

    def __init__(self, context: ProxyContext) -> None:
        self._context = context

    def wants(self, session: Session) -> bool:
        return self._context.gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = decode_request(_KEY, exchange.api_version, exchange.body)
        pass_or_hold(session, exchange, [request.group_id], HOLD_S, lambda: self._refuse(exchange, request))

    def _refuse(self, exchange: Exchange, request: Any) -> None:
        code = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        topic_kind = OffsetCommitResponse.OffsetCommitResponseTopic
        kind = topic_kind.OffsetCommitResponsePartition
        topics = [
            topic_kind(
                name=topic.name,
                partitions=[kind(partition_index=p.partition_index, error_code=code) for p in topic.partitions],
            )
            for topic in request.topics
        ]
        response = OffsetCommitResponse(throttle_time_ms=0, topics=topics)
        exchange.reply_framed(encode_response(response, _KEY, exchange.api_version, exchange.correlation_id))
