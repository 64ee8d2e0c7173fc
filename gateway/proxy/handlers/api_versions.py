"""ApiVersions: v0-4.

Behaviour: the broker's own ranges, cut to what this gateway knows and to the caps that keep the hot path opaque
(`protocol.apis.ADVERTISED`). The gateway owns the answer: v5 (KIP-1242) would carry a node id that is not the
client's idea of it. Transactions v2 is hidden from the features. An unsupported version gets the v0 answer with
UNSUPPORTED_VERSION, as a broker gives it (KIP-511).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.proxy.produce.target_down import TargetDown
from protocol.api_versions import gateway_response, unsupported_version_response
from protocol.apis import ADVERTISED, ApiKey
from protocol.framing import framed
from protocol.header import response_body_offset

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_KEY = int(ApiKey.API_VERSIONS)


class ApiVersionsHandler:
    """See the module's docstring."""

    def __init__(self, *, target_down: TargetDown) -> None:
        self._target_down = target_down

    def intercepts(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        low, high = ADVERTISED[_KEY]
        if not low <= exchange.api_version <= high:
            exchange.reply_framed(unsupported_version_response(exchange.correlation_id))
            return
        exchange.forward(lambda frame: self._cut(exchange, frame))

    def _cut(self, exchange: Exchange, frame: memoryview) -> bytes:
        at = response_body_offset(_KEY, exchange.api_version, frame)
        body = gateway_response(bytes(frame[at:]), exchange.api_version)
        self._target_down.api_versions[exchange.api_version] = bytes(body)
        return framed(frame[:at], body)
