"""ConsumerGroupHeartbeat (KIP-848): v0-1.

Behaviour: the gate of groups of the new protocol. Held at most 3 s (librdkafka's own timeout for it is 5 s), then
COORDINATOR_LOAD_IN_PROGRESS, on which every client backs off and asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.proxy.gating import pass_or_hold
from protocol.apis import ApiKey
from protocol.codec import consumer_group_heartbeat_error
from protocol.errors import ErrorCode, MalformedFrame
from protocol.peek import first_string

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session

_KEY = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)
HOLD_S = 3.0


class ConsumerGroupHeartbeatHandler:
    """See the module's docstring."""

    def __init__(self, context: ProxyContext) -> None:
        self._context = context

    def wants(self, session: Session) -> bool:
        return self._context.gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        group = first_string(exchange.body, flexible=True)
        if group is None:
            raise MalformedFrame("ConsumerGroupHeartbeat without a group id")
        pass_or_hold(session, exchange, [group], HOLD_S, lambda: self._refuse(exchange))

    def _refuse(self, exchange: Exchange) -> None:
        code = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        exchange.reply_framed(consumer_group_heartbeat_error(exchange.api_version, exchange.correlation_id, code))
