"""DescribeCluster: v0-2 and DescribeTopicPartitions: v0.

Behaviour: DescribeCluster's broker list becomes the gateway's listeners. DescribeTopicPartitions carries node ids
only, which are the target's own, so it passes untouched and needs no handler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.proxy.addresses import patched

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session


class DescribeClusterHandler:
    """See the module's docstring."""

    def __init__(self, context: ProxyContext) -> None:
        self._context = context

    def wants(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        exchange.forward(patched(self._context, exchange))
