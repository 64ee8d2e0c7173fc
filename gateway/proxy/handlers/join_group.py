"""JoinGroup: v0-9.

Behaviour: the gate of classic groups. A member of a group that may not read yet is held for 20-25 s (below the
30 s read timeout of sarama, the shortest default of all clients), then told UNKNOWN_MEMBER_ID with an empty
member id, which every client answers by joining again. On promote the held request goes straight on.

Version notes: protocol name is null from v7 on, an empty string before.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.groups.gate.rules.gates import GroupGates
from gateway.proxy.handlers.gating import pass_or_hold
from protocol.apis import ApiKey, is_flexible
from protocol.codec import encode_response
from protocol.errors import ErrorCode, MalformedFrame
from protocol.messages import JoinGroupResponse
from protocol.peek import first_string

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_KEY = int(ApiKey.JOIN_GROUP)
HOLD_S = (20.0, 25.0)


class JoinGroupHandler:
    """See the module's docstring."""

    def __init__(self, *, gates: GroupGates, rng: random.Random) -> None:
        self._gates = gates
        self._rng = rng

    def intercepts(self, session: Session) -> bool:
        return self._gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        group = first_string(exchange.body, flexible=is_flexible(_KEY, exchange.api_version))
        if group is None:
            raise MalformedFrame("JoinGroup without a group id")

        def refuse(codes: Mapping[str, int]) -> None:
            self._refuse(exchange, codes.get(group, int(ErrorCode.UNKNOWN_MEMBER_ID)))

        def joins() -> tuple[str, float]:
            try:
                request = exchange.request()
            except MalformedFrame:  # the target says so, once it is let on
                return "", 0.0
            return request.group_instance_id or "", request.session_timeout_ms / 1000

        pass_or_hold(self._gates, session, exchange, [group], self._rng.uniform(*HOLD_S), refuse, joins=joins)

    def _refuse(self, exchange: Exchange, code: int) -> None:
        response = JoinGroupResponse(
            throttle_time_ms=0,
            error_code=code,
            generation_id=-1,
            protocol_type=None,
            protocol_name=None if exchange.api_version >= 7 else "",
            leader="",
            skip_assignment=False,
            member_id="",
            members=[],
        )
        exchange.reply_framed(encode_response(response, _KEY, exchange.api_version, exchange.correlation_id))
