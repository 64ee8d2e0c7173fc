"""Broker addresses in responses become the gateway's listeners."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.proxy.rules.own_names import PREFIX
from protocol.apis import ApiKey
from protocol.framing import framed
from protocol.header import frame_response, response_body_offset
from protocol.metadata import without_topics
from protocol.patch import patch_brokers
from protocol.wire import Buffer

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange, ExchangeSession, Transform

_OWN = PREFIX.encode()

Advertised = Callable[[int, str, int], tuple[str, int]]
"""(node id, host, port) -> where clients find this broker; learns a broker that was not known yet."""


def as_seen_by(session: ExchangeSession, advertised: Advertised) -> Advertised:
    """Where this session's client finds brokers: at the listener that it came by."""
    listener = session.listener
    if listener is None or not (listener.name or listener.by_name):
        return advertised

    def told(node_id: int, host: str, port: int) -> tuple[str, int]:
        advertised(node_id, host, port)
        return listener.broker(node_id)

    return told


def patched(advertised: Advertised, exchange: Exchange) -> Transform:
    """A transform that rewrites the broker list of the exchange's response and nothing else."""
    key, version = exchange.api_key, exchange.api_version
    advertised = as_seen_by(exchange.session, advertised)

    def transform(frame: memoryview) -> bytes:
        at = response_body_offset(key, version, frame)
        body = patch_brokers(key, version, _without_own(key, version, frame[at:]), advertised)
        return framed(frame[:at], body)

    return transform


def framed_with_addresses(advertised: Advertised, exchange: Exchange, body: Buffer) -> bytes:
    """The framed response of the exchange, from a response body of its version."""
    key, version = exchange.api_key, exchange.api_version
    told = as_seen_by(exchange.session, advertised)
    patched_body = patch_brokers(key, version, _without_own(key, version, body), told)
    return frame_response(key, version, exchange.correlation_id, patched_body)


def _without_own(key: int, version: int, body: Buffer) -> Buffer:
    """A Metadata response without the gateway's own topics."""
    return without_topics(body, version, _OWN) if key == ApiKey.METADATA else body
