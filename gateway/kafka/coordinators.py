"""The coordinators of groups and transactional ids.

A broker cut off from its cluster but not from its clients keeps claiming groups that other brokers coordinate by now:
it answers from memory, and cannot write. So a broker whose claim turned out to be wrong is not asked for the right
coordinator, as long as there are others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Container
from typing import Any, Protocol

from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.transport.backoff import Backoff
from protocol.errors import error_name, is_retriable
from protocol.messages import FindCoordinatorRequest

GROUP = 0
TRANSACTION = 1
_NAMES = {GROUP: "group", TRANSACTION: "transactional id"}
_MAX_KEPT = 10_000


class Request(Protocol):
    """`Cluster.request`: asks any broker, if possible none of those to `avoid`."""

    async def __call__(self, message: Any, *, timeout_s: float, avoid: Collection[int]) -> Any:
        """The decoded response. Raises ClusterUnavailable."""


class Coordinators:
    """Group or transactional id -> node id, asked once and kept until it turns out to be wrong.

    Args:
        request: asks the cluster.
        brokers: the node ids that the cluster has now.
        backoff: makes a new one for each question.
    """

    def __init__(self, request: Request, brokers: Callable[[], Container[int]], backoff: Callable[[], Backoff]) -> None:
        self._request = request
        self._brokers = brokers
        self._backoff = backoff
        self._known: dict[tuple[int, str], int] = {}
        self._wrong: dict[tuple[int, str], int] = {}  # the last coordinator that turned out to be wrong

    def forget(self, name: str, kind: int = GROUP, node_id: int | None = None) -> None:
        """The group or transactional id has moved. `node_id`: away from there; ignored if another one is known."""
        wrong = self._known.get((kind, name))
        if node_id is not None and wrong != node_id:
            return
        self._known.pop((kind, name), None)
        if wrong is not None:
            if len(self._wrong) >= _MAX_KEPT:
                self._wrong.clear()
            self._wrong[kind, name] = wrong

    async def find(self, name: str, timeout_s: float, kind: int = GROUP) -> int:
        """The coordinator. Raises as `Cluster.coordinator` says."""
        known = self._known.get((kind, name))
        if known is not None and known in self._brokers():
            return known
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        backoff = self._backoff()
        refusal = ""
        while True:
            try:
                code, message, node_id = await self._ask(name, kind, deadline - loop.time())
            except ClusterUnavailable:  # what a broker said before tells more than that the last moment was too short
                if refusal:
                    raise ClusterUnavailable(refusal) from None
                raise
            if not code:
                break
            refusal = f"coordinator of {_NAMES[kind]} {name}: {message or error_name(code)}"
            if not is_retriable(code):
                raise BrokerError(code, refusal)
            wait_s = backoff.next()
            if loop.time() + wait_s >= deadline:
                raise ClusterUnavailable(refusal)
            await asyncio.sleep(wait_s)
        if len(self._known) >= _MAX_KEPT:
            self._known.clear()
        self._known[kind, name] = node_id
        return node_id

    async def _ask(self, name: str, kind: int, timeout_s: float) -> tuple[int, str | None, int]:
        """(error code, message, node id). From version 4 on the answer is a list."""
        request = FindCoordinatorRequest(key=name, key_type=kind, coordinator_keys=[name])
        wrong = self._wrong.get((kind, name))
        response = await self._request(request, timeout_s=timeout_s, avoid=() if wrong is None else (wrong,))
        found = response.coordinators[0] if response.coordinators else response
        return found.error_code, found.error_message, found.node_id
