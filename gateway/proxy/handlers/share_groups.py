"""Share groups (KIP-932): ShareGroupHeartbeat v1, ShareFetch and ShareAcknowledge v1-2.

Behaviour: the gate of share groups. A member's heartbeat is held at most 3 s, then answered with
COORDINATOR_LOAD_IN_PROGRESS, on which every client backs off and asks again: as ConsumerGroupHeartbeat.

So is a member of a streams group (KIP-1071). One that had joined, and whose gate is closed now, is told
UNKNOWN_MEMBER_ID at once, and joins again. One that leaves passes, in either kind of group.

Brokers do not ask the group's coordinator whether who fetches for a share group is a member of it, so ShareFetch is
gated by itself: without an open gate it is answered with SHARE_SESSION_NOT_FOUND, and nothing is delivered. On that
code Kafka's consumer begins a new session with its next fetch, without an exception out of `poll`; so it does with
whatever else stands for a whole answer, but in what it makes of its epoch of the session, which the broker would refuse
then.

What was acquired before the gate closed may still be acknowledged: ShareAcknowledge passes, since it delivers nothing.
Acknowledgements that come with a ShareFetch are refused with it, as are, by Kafka's consumer itself, those for which it
has no session any more: their callback is told, and the records are delivered again.

Start offsets of a share group whose gate is not open are altered and deleted by the gateway alone: see
`group_deletes.py`.

The answers of ShareFetch and ShareAcknowledge may name brokers (when a leader has moved): those become the gateway's
listeners. They hardly ever do, and such an answer passes as it is.

ShareGroupDescribe and DescribeShareGroupOffsets are the target's to answer and pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from gateway.groups.gate.rules.gates import GroupGates
from gateway.proxy.handlers.consumer_group_heartbeat import HOLD_S
from gateway.proxy.handlers.gating import has_to_leave, leaves, pass_or_hold
from gateway.proxy.session.addresses import Advertised, as_seen_by
from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_body, encode_response
from protocol.errors import ErrorCode, MalformedFrame
from protocol.framing import framed
from protocol.header import response_body_offset
from protocol.messages import RESPONSES
from protocol.peek import first_string

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange, Transform
    from gateway.proxy.session.session import Session

NO_BROKERS: Final = b"\x01\x00"
"""How an answer ends that names no broker: an empty compact array, and no tagged fields."""

_WAIT: Final = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
_NO_SESSION: Final = int(ErrorCode.SHARE_SESSION_NOT_FOUND)


class GatedGroupHandler:
    """An API of one group, whose id comes first: held while the group's gate is not open, and refused with one code.

    Of ShareGroupHeartbeat and StreamsGroupHeartbeat.
    """

    def __init__(self, key: ApiKey, *, gates: GroupGates) -> None:
        self._key = key
        self._gates = gates

    def intercepts(self, session: Session) -> bool:
        return self._gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        group = _group(exchange)
        if self._key is ApiKey.STREAMS_GROUP_HEARTBEAT and has_to_leave(self._gates, session, exchange, group):
            _answer(exchange, self._key, int(ErrorCode.UNKNOWN_MEMBER_ID))
            return
        if leaves(self._gates, session, exchange, group):
            exchange.forward()
            return
        hold(self._gates, session, exchange, self._key, _WAIT, exchange.forward)


class ShareFetchHandler:
    """See the module's docstring."""

    def __init__(self, *, gates: GroupGates, advertised: Advertised) -> None:
        self._gates = gates
        self._advertised = advertised

    def intercepts(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        def forward() -> None:
            exchange.forward(with_listeners(self._advertised, exchange))

        if self._gates.enabled:
            hold(self._gates, session, exchange, ApiKey.SHARE_FETCH, _NO_SESSION, forward)
        else:
            forward()


class ShareAcknowledgeHandler:
    """See the module's docstring."""

    def __init__(self, *, advertised: Advertised) -> None:
        self._advertised = advertised

    def intercepts(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        exchange.forward(with_listeners(self._advertised, exchange))


def hold(
    gates: GroupGates,
    session: Session,
    exchange: Exchange,
    key: ApiKey,
    code: int,
    forward: Callable[[], None],
) -> None:
    """Forward when the group's gate is open or opens in time; else refuse with `code`, or with the target's own."""
    group = _group(exchange)
    pass_or_hold(
        gates,
        session,
        exchange,
        [group],
        HOLD_S,
        lambda codes: _answer(exchange, key, codes.get(group, code)),
        forward,
    )


def _group(exchange: Exchange) -> str:
    group = first_string(exchange.body, flexible=True)
    if group is None:
        raise MalformedFrame(f"{ApiKey(exchange.api_key).name} without a group id")
    return group


def _answer(exchange: Exchange, key: ApiKey, code: int) -> None:
    answer: Any = RESPONSES[key](error_code=code, error_message=None)
    exchange.reply_framed(encode_response(answer, key, exchange.api_version, exchange.correlation_id))


def with_listeners(advertised: Advertised, exchange: Exchange) -> Transform:
    """A transform that makes the brokers that an answer names the gateway's listeners."""
    told = as_seen_by(exchange.session, advertised)
    key, version = exchange.api_key, exchange.api_version

    def transform(frame: memoryview) -> bytes:
        if bytes(frame[-len(NO_BROKERS) :]) == NO_BROKERS:
            return framed(frame)
        at = response_body_offset(key, version, frame)
        answer = decode_response(key, version, frame[at:])
        for broker in answer.node_endpoints:
            broker.host, broker.port = told(broker.node_id, broker.host, broker.port)
        body = encode_body(answer, version)
        return framed(frame[:at], body)

    return transform
