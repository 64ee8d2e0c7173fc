"""OffsetCommit: v2-9 (v10 names topics by id and is not advertised).

Behaviour: a commit for a group that is gated would race with the offsets its promote carries over: it is held
at most 1 s, then COORDINATOR_LOAD_IN_PROGRESS on every partition, which clients retry. A consumer that assigns its
partitions itself commits without being a member (generation -1), so the target takes it at any time: what has passed
the gate is counted until it is answered, and a demote, which closes the gate again, waits for that.
* without a valid lease (`fleet/rules/leases.py`) nothing passes, and no answer is passed on
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gateway.groups.gate.rules.gates import GroupGates
from gateway.proxy.handlers.gating import forward_counted, pass_or_hold
from protocol.apis import ApiKey
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.messages import OffsetCommitResponse

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_KEY = int(ApiKey.OFFSET_COMMIT)
_LOADING = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
HOLD_S = 1.0


class OffsetCommitHandler:
    """See the module's docstring."""

    def __init__(self, *, gates: GroupGates, lease_valid: Callable[[], bool]) -> None:
        self._gates = gates
        self._lease_valid = lease_valid

    def intercepts(self, session: Session) -> bool:
        return self._gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()
        group = request.group_id
        pass_or_hold(
            self._gates,
            session,
            exchange,
            [group],
            HOLD_S,
            lambda codes: self._refuse(exchange, request, codes.get(group, _LOADING)),
            lambda: self._forward(session, exchange, group, lambda: self._refuse(exchange, request, _LOADING)),
        )

    def _forward(self, session: Session, exchange: Exchange, group: str, refuse: Callable[[], None]) -> None:
        if self._lease_valid():
            forward_counted(self._gates, session, exchange, [group])
        else:
            refuse()

    def _refuse(self, exchange: Exchange, request: Any, code: int) -> None:
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
