"""InitProducerId: v0-5.

Behaviour: the target issues the id; the client is shown id + 2^49, and uses that on both clusters. Ids of the
source and the target both count from 0 and would collide; brokers do not check who issued an id, so the shifted
one is good everywhere and no batch has to be rewritten. An id that comes back (v3+, an epoch bump) is shifted
back. Transactional producers keep the target's own id: their markers are the target coordinator's.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from gateway.domain.producer_ids import GATEWAY_PID_BASE
from protocol.codec import decode_request, encode_body
from protocol.header import response_body_offset
from protocol.patch import patch_init_producer_id_response

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session

_SIZE = struct.Struct(">i")


class InitProducerIdHandler:
    """See the module's docstring."""

    def __init__(self, context: ProxyContext) -> None:
        self._context = context

    def wants(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = decode_request(exchange.api_key, exchange.api_version, exchange.body)
        if request.transactional_id is not None:
            exchange.forward()
            return
        if exchange.api_version >= 3 and request.producer_id >= GATEWAY_PID_BASE:
            request.producer_id -= GATEWAY_PID_BASE
            exchange.forward_body(encode_body(request, exchange.api_version), lambda frame: _shift(exchange, frame))
        else:
            exchange.forward(lambda frame: _shift(exchange, frame))


def _shift(exchange: Exchange, frame: memoryview) -> bytes:
    at = response_body_offset(exchange.api_key, exchange.api_version, frame)
    body = patch_init_producer_id_response(frame[at:], exchange.api_version, GATEWAY_PID_BASE)
    return b"".join((_SIZE.pack(at + len(body)), frame[:at], body))
