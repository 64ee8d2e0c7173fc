"""OffsetFetch: v0-9 (v10 names topics by id and is not advertised).

Behaviour: held at most 4 s for a group that may not read yet, then COORDINATOR_LOAD_IN_PROGRESS, both for the
group and on every partition: aiokafka looks at partitions only, and an answer without them would read as "no
committed offset", which ends in auto.offset.reset. From v8 on a request may name several groups: those that may read
are asked of the target then, and only the others are told to come again. Who may describe the group only waits without
counting as a waiter; so does who asks for all topics, as tools do and no consumer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gateway.groups.gate.rules.gates import GroupGates
from gateway.proxy.handlers.gating import pass_or_hold, passes
from gateway.proxy.handlers.group_rights import Right
from gateway.proxy.handlers.partly_refused import refuse
from gateway.proxy.rules.refusals import Refusal, of_those
from protocol.errors import ErrorCode
from protocol.messages import OffsetFetchResponse
from protocol.offset_fetch import SEVERAL_FROM, refused
from protocol.peek import first_array_size

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_LOADING = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
_MOST_GROUPS = 100_000
"""Tools that look at lag name all groups of a cluster in one request; what may be decoded is bounded anyway."""
HOLD_S = 4.0


class OffsetFetchHandler:
    """See the module's docstring."""

    def __init__(self, *, gates: GroupGates) -> None:
        self._gates = gates

    def intercepts(self, session: Session) -> bool:
        return self._gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        if self._names_too_many(session, exchange):
            body, code = exchange.body, int(ErrorCode.INVALID_REQUEST)
            exchange.reply(refused(body, exchange.api_version, code, session.max_elements))
            return
        request = exchange.request()
        asked = request.groups if exchange.api_version >= 8 else [request]
        groups = [each.group_id for each in asked]
        pass_or_hold(
            self._gates,
            session,
            exchange,
            groups,
            HOLD_S,
            lambda codes: self._refuse(session, exchange, request, codes),
            right=Right.DESCRIBE,
            looks_at=frozenset(each.group_id for each in asked if not each.topics),
        )

    def _names_too_many(self, session: Session, exchange: Exchange) -> bool:
        """More groups than are decoded, and not so many that the request is refused whole."""
        if exchange.api_version < SEVERAL_FROM:
            return False
        count = first_array_size(exchange.body, flexible=True)
        return session.context.limits.groups_per_request < count <= session.max_elements

    def _refuse(self, session: Session, exchange: Exchange, request: Any, codes: Mapping[str, int]) -> None:
        def waits(group: Any) -> bool:
            return group.group_id in codes or not passes(self._gates, session, group.group_id)

        def answer(groups: Sequence[Any]) -> OffsetFetchResponse:
            refused = [_refused_group(group, codes.get(group.group_id, _LOADING)) for group in groups]
            return OffsetFetchResponse(throttle_time_ms=0, groups=refused)

        if exchange.api_version >= 8:
            refusal = of_those(request.groups, waits, "groups", answer, most=_MOST_GROUPS)
        else:
            code = codes.get(request.group_id, _LOADING)
            kind = OffsetFetchResponse.OffsetFetchResponseTopic
            topics = [_refused_topic(kind, topic, code) for topic in request.topics or ()]
            refusal = Refusal(OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=code))
        if refuse(exchange, request, refusal):
            exchange.forward()


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
