"""JoinGroup: v0-9.

Behaviour: the gate of classic groups. A member of a group that may not read yet is held for 20-25 s (below the
30 s read timeout of sarama, the shortest default of all clients), then told UNKNOWN_MEMBER_ID with an empty
member id, which every client answers by joining again. On promote the held request goes straight on.

Version notes: protocol name is null from v7 on, an empty string before.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from gateway.proxy.gating import pass_or_hold
from protocol.apis import ApiKey, is_flexible
from protocol.codec import encode_response
from protocol.errors import ErrorCode, MalformedFrame
from protocol.messages import JoinGroupResponse
from protocol.peek import first_string

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session

_KEY = int(ApiKey.JOIN_GROUP)
HOLD_S = (20.0, 25.0)


class JoinGroupHandler:
    """See the module's docstring."""

    def __init__(self, context: ProxyContext, rng: random.Random) -> None:
        self._context = context
        self._rng = rng

    def wants(self, session: Session) -> bool:
        return self._context.gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        group = first_string(exchange.body, flexible=is_flexible(_KEY, exchange.api_version))
        if group is None:
            raise MalformedFrame("JoinGroup without a group id")
        pass_or_hold(session, exchange, [group], self._rng.uniform(*HOLD_S), lambda: self._refuse(exchange))

    def _refuse(self, exchange: Exchange) -> None:
        response = JoinGroupResponse(
            throttle_time_ms=0,
            error_code=int(ErrorCode.UNKNOWN_MEMBER_ID),
            generation_id=-1,
            protocol_type=None,
            protocol_name=None if exchange.api_version >= 7 else "",
            leader="",
            skip_assignment=False,
            member_id="",
            members=[],
        )
        exchange.reply_framed(encode_response(response, _KEY, exchange.api_version, exchange.correlation_id))
