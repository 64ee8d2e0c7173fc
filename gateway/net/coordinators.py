"""Which broker coordinates which group."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.net.backoff import Backoff
from gateway.net.errors import BrokerError, ClusterUnavailable
from protocol.errors import error_name, is_retriable
from protocol.messages import FindCoordinatorRequest

if TYPE_CHECKING:
    from gateway.net.cluster import Cluster

_GROUP = 0
_MAX_KEPT = 10_000


class Coordinators:
    """Group -> node id, asked once and kept until somebody learns that it is wrong."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, int] = {}

    def forget(self, group: str) -> None:
        """The group has moved."""
        self._known.pop(group, None)

    async def find(self, group: str, timeout_s: float) -> int:
        """The group's coordinator. Raises as `Cluster.coordinator` says."""
        known = self._known.get(group)
        if known is not None and known in self._cluster.view.brokers:
            return known
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        backoff = Backoff(*self._cluster.config.retry_backoff_s)
        while True:
            code, message, node_id = await self._ask(group, deadline - loop.time())
            if not code:
                break
            if not is_retriable(code):
                raise BrokerError(code, f"coordinator of group {group}: {message or error_name(code)}")
            wait_s = backoff.next()
            if loop.time() + wait_s >= deadline:
                raise ClusterUnavailable(f"coordinator of group {group}: {message or error_name(code)}")
            await asyncio.sleep(wait_s)
        if len(self._known) >= _MAX_KEPT:
            self._known.clear()
        self._known[group] = node_id
        return node_id

    async def _ask(self, group: str, timeout_s: float) -> tuple[int, str | None, int]:
        """(error code, message, node id). From version 4 on the answer is a list."""
        request = FindCoordinatorRequest(key=group, key_type=_GROUP, coordinator_keys=[group])
        response = await self._cluster.request(request, timeout_s=timeout_s)
        found = response.coordinators[0] if response.coordinators else response
        return found.error_code, found.error_message, found.node_id
