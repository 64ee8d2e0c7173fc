"""OffsetFetch: v0-9 (v10 names topics by id and is not advertised).

Behaviour: held at most 4 s for a group that may not read yet, then COORDINATOR_LOAD_IN_PROGRESS, both for the
group and on every partition: aiokafka looks at partitions only, and an answer without them would read as "no
committed offset", which ends in auto.offset.reset. Who may describe the group only waits without counting as a waiter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gateway.groups.gate.rules.gates import GroupGates
from gateway.proxy.handlers.gating import pass_or_hold
from gateway.proxy.handlers.group_rights import Right
from protocol.apis import ApiKey
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.messages import OffsetFetchResponse

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_KEY = int(ApiKey.OFFSET_FETCH)
_LOADING = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
HOLD_S = 4.0


class OffsetFetchHandler:
    """See the module's docstring."""

    def __init__(self, *, gates: GroupGates) -> None:
        self._gates = gates

    def intercepts(self, session: Session) -> bool:
        return self._gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()
        groups = [g.group_id for g in request.groups] if exchange.api_version >= 8 else [request.group_id]
        pass_or_hold(
            self._gates,
            session,
            exchange,
            groups,
            HOLD_S,
            lambda codes: self._refuse(exchange, request, codes),
            right=Right.DESCRIBE,
        )

    def _refuse(self, exchange: Exchange, request: Any, codes: Mapping[str, int]) -> None:
        if exchange.api_version >= 8:
            groups = [_refused_group(group, codes.get(group.group_id, _LOADING)) for group in request.groups]
            response = OffsetFetchResponse(throttle_time_ms=0, groups=groups)
        else:
            code = codes.get(request.group_id, _LOADING)
            kind = OffsetFetchResponse.OffsetFetchResponseTopic
            topics = [_refused_topic(kind, topic, code) for topic in request.topics or ()]
            response = OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=code)
        exchange.reply_framed(encode_response(response, _KEY, exchange.api_version, exchange.correlation_id))


def _refused_group(group: Any, code: int) -> Any:
    kind = OffsetFetchResponse.OffsetFetchResponseGroup
    topics = [_refused_topic(kind.OffsetFetchResponseTopics, topic, code) for topic in group.topics or ()]
    return kind(group_id=group.group_id, topics=topics, error_code=code)


def _refused_topic(kind: Any, topic: Any, code: int) -> Any:
    partition_kind = getattr(kind, "OffsetFetchResponsePartition", None) or kind.OffsetFetchResponsePartitions
    partitions = [
        partition_kind(
            partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code
        )
        for index in topic.partition_indexes
    ]
    return kind(name=topic.name, partitions=partitions)
