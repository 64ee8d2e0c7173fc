"""ListOffsets: v1-11.

Behaviour: while a mirror topic is still being set up (its partitions padded to the source's first offset) its
offsets are nobody's to see: OFFSET_NOT_AVAILABLE (v5+) or LEADER_NOT_AVAILABLE, both retried by every client, on
every partition of the request. Otherwise it passes untouched: offsets are true on a mirror at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.cutover.write_pause.rules.routing import RoutingTable
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.messages import ListOffsetsResponse

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session


class ListOffsetsHandler:
    """See the module's docstring."""

    def __init__(self, *, routing: RoutingTable) -> None:
        self._routing = routing

    def intercepts(self, session: Session) -> bool:
        return self._routing.current.unreadable

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()
        routes = self._routing.current.topics
        if all(t.name not in routes or routes[t.name].readable for t in request.topics):
            exchange.forward()
            return
        v5 = exchange.api_version >= 5
        code = int(ErrorCode.OFFSET_NOT_AVAILABLE if v5 else ErrorCode.LEADER_NOT_AVAILABLE)
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        part = kind.ListOffsetsPartitionResponse
        topics = [
            kind(
                name=topic.name,
                partitions=[
                    part(partition_index=p.partition_index, error_code=code, timestamp=-1, offset=-1, leader_epoch=-1)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        response = ListOffsetsResponse(throttle_time_ms=0, topics=topics)
        exchange.reply_framed(
            encode_response(response, exchange.api_key, exchange.api_version, exchange.correlation_id)
        )
