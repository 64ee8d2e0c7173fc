"""DescribeCluster: v0-2 and DescribeTopicPartitions: v0.

Behaviour: DescribeCluster's broker list becomes the gateway's listeners. DescribeTopicPartitions carries node ids
only, which are the target's own, so it passes untouched and needs no handler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.proxy.session.addresses import Advertised, patched

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session


class DescribeClusterHandler:
    """See the module's docstring."""

    def __init__(self, *, advertised: Advertised) -> None:
        self._advertised = advertised

    def intercepts(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        exchange.forward(patched(self._advertised, exchange))
