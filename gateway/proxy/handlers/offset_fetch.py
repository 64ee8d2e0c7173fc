"""OffsetFetch: v0-9 (v10 names topics by id and is not advertised).

Behaviour: held at most 4 s for a group that may not read yet, then COORDINATOR_LOAD_IN_PROGRESS, both for the
group and on every partition: aiokafka looks at partitions only, and an answer without them would read as "no
committed offset", which ends in auto.offset.reset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.proxy.gating import pass_or_hold
from protocol.apis import ApiKey
from protocol.codec import decode_request, encode_response
from protocol.errors import ErrorCode
from protocol.messages import OffsetFetchResponse

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session

_KEY = int(ApiKey.OFFSET_FETCH)
_LOADING = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
HOLD_S = 4.0


class OffsetFetchHandler:
    """See the module's docstring."""

    def __init__(self, context: ProxyContext) -> None:
        self._context = context

    def wants(self, session: Session) -> bool:
        return self._context.gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = decode_request(_KEY, exchange.api_version, exchange.body)
        groups = [g.group_id for g in request.groups] if exchange.api_version >= 8 else [request.group_id]
        pass_or_hold(session, exchange, groups, HOLD_S, lambda: self._refuse(exchange, request))

    def _refuse(self, exchange: Exchange, request: Any) -> None:
        if exchange.api_version >= 8:
            response = OffsetFetchResponse(throttle_time_ms=0, groups=[_loading_group(g) for g in request.groups])
        else:
            topics = [_loading_topic(OffsetFetchResponse.OffsetFetchResponseTopic, t) for t in request.topics or ()]
            response = OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=_LOADING)
        exchange.reply_framed(encode_response(response, _KEY, exchange.api_version, exchange.correlation_id))


def _loading_group(group: Any) -> Any:
    kind = OffsetFetchResponse.OffsetFetchResponseGroup
    topics = [_loading_topic(kind.OffsetFetchResponseTopics, topic) for topic in group.topics or ()]
    return kind(group_id=group.group_id, topics=topics, error_code=_LOADING)


def _loading_topic(kind: Any, topic: Any) -> Any:
    partition_kind = getattr(kind, "OffsetFetchResponsePartition", None) or kind.OffsetFetchResponsePartitions
    partitions = [
        partition_kind(
            partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=_LOADING
        )
        for index in topic.partition_indexes
    ]
    return kind(name=topic.name, partitions=partitions)
