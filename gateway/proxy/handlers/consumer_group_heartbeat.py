"""ConsumerGroupHeartbeat (KIP-848): v0-1.

Behaviour: the gate of groups of the new protocol. Held at most 3 s (librdkafka's own timeout for it is 5 s), then
COORDINATOR_LOAD_IN_PROGRESS, on which every client backs off and asks again. A member that joined while its group's
gate was open, and whose gate is closed now, is told UNKNOWN_MEMBER_ID at once, as by Heartbeat: it gives its partitions
up, and joins again. One that leaves passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.groups.gate.rules.gates import GroupGates
from gateway.proxy.handlers.gating import has_to_leave, leaves, pass_or_hold
from protocol.apis import ApiKey
from protocol.codec import consumer_group_heartbeat_error
from protocol.errors import ErrorCode, MalformedFrame
from protocol.peek import first_string

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_KEY = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)
HOLD_S = 3.0


class ConsumerGroupHeartbeatHandler:
    """See the module's docstring."""

    def __init__(self, *, gates: GroupGates) -> None:
        self._gates = gates

    def intercepts(self, session: Session) -> bool:
        return self._gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        group = first_string(exchange.body, flexible=True)
        if group is None:
            raise MalformedFrame("ConsumerGroupHeartbeat without a group id")

        def refuse(codes: Mapping[str, int]) -> None:
            self._refuse(exchange, codes.get(group, int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)))

        def joins() -> tuple[str, float]:
            try:
                return exchange.request().instance_id or "", 0.0
            except MalformedFrame:  # the target says so, once it is let on
                return "", 0.0

        if has_to_leave(self._gates, session, exchange, group):
            self._refuse(exchange, int(ErrorCode.UNKNOWN_MEMBER_ID))
            return
        if leaves(self._gates, session, exchange, group):
            exchange.forward()
            return
        pass_or_hold(self._gates, session, exchange, [group], HOLD_S, refuse, joins=joins)

    def _refuse(self, exchange: Exchange, code: int) -> None:
        exchange.reply_framed(consumer_group_heartbeat_error(exchange.api_version, exchange.correlation_id, code))
