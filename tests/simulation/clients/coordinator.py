"""Requests to a coordinator, of a group or of a transactional id: found, asked, found again when it has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from gateway.kafka.cluster import Cluster, ClusterUnavailable, NetError
from protocol.errors import ErrorCode, error_name, is_retriable
from protocol.messages import FindCoordinatorRequest
from tests.simulation.clients.client import CONNECT_TRY_S, Fatal

GROUP: Final = 0
TRANSACTION: Final = 1
MOVED: Final = frozenset((ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR))
_LANE: Final = "coordinator"
Codes = Collection[int]


class GivenUp(Exception):
    """Asked again and again, for longer than whoever asks has patience; the message is what was said last."""


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

    async def ask_again(
        self,
        message: Any,
        *,
        cap: int,
        codes_of: Callable[[Any], Iterable[int]],
        judge: Callable[[Codes, bool], None],
        patience_s: float,
        pause_s: Callable[[Codes], float],
    ) -> Any:
        """The first answer without an error.

        Args:
            codes_of: the codes in an answer.
            judge: is given the errors of an answer, and whether an earlier request may have had its effect without an
                answer; raises unless it is to be asked again.
            pause_s: before it is asked again; without codes after no answer at all.

        Raises:
            GivenUp: it was still refused after `patience_s`.
        """
        clock = asyncio.get_running_loop().time
        until, outcome_is_unknown = clock() + patience_s, False
        while True:
            codes: list[int] = []
            try:
                answer = await self.ask(message, cap=cap)
            except NetError as error:
                outcome_is_unknown, said = True, str(error)
            else:
                codes = [code for code in codes_of(answer) if code]
                if not codes:
                    return answer
                judge(codes, outcome_is_unknown)
                if MOVED.intersection(codes):
                    self.forget()
                said = error_name(codes[0])
            if clock() >= until:
                raise GivenUp(said)
            await asyncio.sleep(pause_s(codes))

    async def _find(self) -> int:
        request = FindCoordinatorRequest(key=self._name, key_type=self._kind, coordinator_keys=[self._name])
        answer = await self._cluster.request(request, cap=4, timeout_s=self._timeout_s)
        found = answer.coordinators[0] if answer.coordinators else answer
        if found.error_code:
            why = f"FindCoordinator {self._name}: {error_name(found.error_code)}"
            raise ClusterUnavailable(why) if is_retriable(found.error_code) else Fatal(why)
        return int(found.node_id)
