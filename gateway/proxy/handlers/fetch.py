"""Fetch: v4-15.

Behaviour: the second line behind the coordinator gate. A client that is known to belong to a group which may not
read yet (or to none, where the policy denies that) gets empty record sets of mirror topics after max_wait, with
the broker's true high watermarks. The broker is asked for one byte of each such partition, so that little is
read for nothing. Such a Fetch tells that its client is a consumer, which asks for offsets as tools do, too
(`GroupGates.fetches`). Everybody else's Fetch passes untouched. Without a valid lease (`fleet/rules/leases.py`) a
mirror group may not read, whatever its record said last.

Version notes: v13+ names topics by id; v16+ would carry NodeEndpoints and is not advertised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gateway.cutover.write_pause.rules.routing import RoutingTable, WritePhase
from gateway.groups.gate.rules.gates import GroupGates
from protocol.codec import decode_response, encode_body, encode_response
from protocol.header import response_body_offset

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session


class FetchHandler:
    """See the module's docstring."""

    def __init__(
        self,
        *,
        routing: RoutingTable,
        gates: GroupGates,
        groupless_allowed: bool,
        clock: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._routing = routing
        self._gates = gates
        self._groupless_allowed = groupless_allowed
        self._clock = clock
        self._loop = loop

    def intercepts(self, session: Session) -> bool:
        if self._routing.current.unreadable:
            return True
        if not self._gates.enabled:
            return False
        if session.client_id is None:  # its first request: who asks is in the header, known once it is collected
            return True
        return self._reads_gated(session)

    def _reads_gated(self, session: Session) -> bool:
        return self._gates.reads_gated(
            session.identity, groupless_allowed=self._groupless_allowed, lease_valid=session.context.lease_valid
        )

    def handle(self, session: Session, exchange: Exchange) -> None:
        gated = self._gated_topics(session)
        if not gated:
            exchange.forward()
            return
        request, now = exchange.request(), self._clock()
        names_gated = False
        for topic in request.topics or ():
            if _name(topic, exchange.api_version) in gated:
                names_gated = True
                for partition in topic.partitions:
                    partition.partition_max_bytes = 1
        if names_gated or not request.topics:  # none: a session that goes on as it is (KIP-227)
            self._gates.fetches(session.identity, now)
        due = now + request.max_wait_ms / 1000
        body = encode_body(request, exchange.api_version)
        exchange.forward_body(body, lambda frame: self._emptied(session, exchange, frame, gated, due))

    def _gated_topics(self, session: Session) -> frozenset[str | bytes]:
        """Names and ids of the topics this client may not read now."""
        routing = self._routing.current
        gated = self._reads_gated(session)
        in_group = bool(self._gates.groups_of(session.identity))  # then a promoted topic waits for its group too
        names = {
            name
            for name, route in routing.topics.items()
            if not route.readable
            or (gated and ((in_group and route.is_mirrored) or route.phase is not WritePhase.SWITCHED))
        }
        ids = {topic_id for topic_id, name in routing.topic_ids.items() if name in names}
        return frozenset(names | ids)

    def _emptied(
        self, session: Session, exchange: Exchange, frame: memoryview, gated: frozenset[str | bytes], due: float
    ) -> bytes | None:
        version = exchange.api_version
        body = frame[response_body_offset(exchange.api_key, version, frame) :]
        response = decode_response(exchange.api_key, version, body)
        stripped = False
        for topic in response.responses or ():
            if _name(topic, version) in gated:
                for partition in topic.partitions:
                    stripped = stripped or bool(partition.records)
                    partition.records = b""
        answer = encode_response(response, exchange.api_key, version, exchange.correlation_id)
        wait = due - self._clock()
        if not stripped or wait <= 0:
            return answer
        self._answer_later(session, exchange, answer, wait)
        return None

    def _answer_later(self, session: Session, exchange: Exchange, answer: bytes, wait: float) -> None:
        """After `wait` seconds, which are the client's choice: nothing is kept for a client that has gone before."""

        def over() -> None:
            session.on_close.remove(timer.cancel)
            exchange.reply_framed(answer)

        timer = self._loop.call_later(wait, over)
        session.on_close.append(timer.cancel)


def _name(topic: Any, version: int) -> str | bytes:
    if version < 13:
        name: str = topic.topic
        return name
    topic_id = topic.topic_id  # None: all zeros, which no topic has
    return b"" if topic_id is None else bytes(topic_id.bytes)
