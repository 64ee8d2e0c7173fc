"""Requests to a coordinator, of a group or of a transactional id: found, asked, found again when it has moved."""

from __future__ import annotations

from typing import Any, Final

from gateway.net.cluster import Cluster, ClusterUnavailable, NetError
from protocol.errors import ErrorCode, error_name, is_retriable
from protocol.messages import FindCoordinatorRequest
from tests.simulation.clients.client import CONNECT_TRY_S, Fatal

GROUP: Final = 0
TRANSACTION: Final = 1
MOVED: Final = frozenset((ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR))
_LANE: Final = "coordinator"


class Coordinator:
    """Of one group or transactional id. One connection, on which one request is answered after the other."""

    def __init__(self, cluster: Cluster, name: str, kind: int, timeout_s: float) -> None:
        self._cluster, self._name, self._kind, self._timeout_s = cluster, name, kind, timeout_s
        self._node: int | None = None

    def forget(self) -> None:
        """It has moved, or does not answer."""
        self._node = None

    async def ask(self, message: Any, *, cap: int | None = None, timeout_s: float | None = None) -> Any:
        """Send one message; the decoded answer, whatever its code.

        Raises:
            NetError: no coordinator was found, or no answer came: the outcome is unknown.
            Fatal: the client may not have this coordinator.
        """
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        if self._node is None:
            self._node = await self._find()
        try:
            connection = await self._cluster.connection(self._node, f"{_LANE}-{self._name}", CONNECT_TRY_S)
            return await connection.request(message, cap=cap, timeout_s=wait_s)
        except NetError:
            self.forget()
            raise

    async def _find(self) -> int:
        request = FindCoordinatorRequest(key=self._name, key_type=self._kind, coordinator_keys=[self._name])
        answer = await self._cluster.request(request, cap=4, timeout_s=self._timeout_s)
        found = answer.coordinators[0] if answer.coordinators else answer
        if found.error_code:
            why = f"FindCoordinator {self._name}: {error_name(found.error_code)}"
            raise ClusterUnavailable(why) if is_retriable(found.error_code) else Fatal(why)
        return int(found.node_id)
