"""Heartbeat: v0-4.

Behaviour: a member that joined while its group's gate was open, and whose gate is closed now (a topic that the group
reads on the source came to be mirrored, or the group was demoted), is told UNKNOWN_MEMBER_ID: it gives its partitions
up without a commit, joins again, and waits at the gate like everybody else. While nobody knows whether the group may
read, its session goes on: what it must not read it does not get (`fetch.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.groups.gate.rules.gates import GateStatus, GroupGates
from protocol.apis import ApiKey, is_flexible
from protocol.codec import encode_response
from protocol.errors import ErrorCode, MalformedFrame
from protocol.messages import HeartbeatResponse
from protocol.peek import first_string

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_KEY = int(ApiKey.HEARTBEAT)


class HeartbeatHandler:
    """See the module's docstring."""

    def __init__(self, *, gates: GroupGates) -> None:
        self._gates = gates

    def intercepts(self, session: Session) -> bool:
        return self._gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        group = first_string(exchange.body, flexible=is_flexible(_KEY, exchange.api_version))
        if group is None:
            raise MalformedFrame("Heartbeat without a group id")
        self._gates.saw(session.identity, group)
        if self._gates.known_status(group) is not GateStatus.CLOSED:
            exchange.forward()
            return
        response = HeartbeatResponse(throttle_time_ms=0, error_code=int(ErrorCode.UNKNOWN_MEMBER_ID))
        exchange.reply_framed(encode_response(response, _KEY, exchange.api_version, exchange.correlation_id))
