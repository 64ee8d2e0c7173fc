"""Broker addresses in responses become the gateway's listeners."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from protocol.header import frame_response, response_body_offset
from protocol.patch import patch_brokers

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.exchange import Buffer, Exchange, Transform

_SIZE = struct.Struct(">i")


def patched(context: ProxyContext, exchange: Exchange) -> Transform:
    """A transform that rewrites the broker list of the exchange's response and nothing else."""
    key, version = exchange.api_key, exchange.api_version

    def transform(frame: memoryview) -> bytes:
        at = response_body_offset(key, version, frame)
        body = patch_brokers(key, version, frame[at:], context.endpoints.advertised)
        return b"".join((_SIZE.pack(at + len(body)), frame[:at], body))

    return transform


def framed_with_addresses(context: ProxyContext, exchange: Exchange, body: Buffer) -> bytes:
    """The framed response of the exchange, from a response body of its version."""
    key, version = exchange.api_key, exchange.api_version
    return frame_response(
        key, version, exchange.correlation_id, patch_brokers(key, version, body, context.endpoints.advertised)
    )
