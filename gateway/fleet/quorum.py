"""What others must do or know before the leader goes on. Write pauses are in `cutover/write_pause/leader.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

import structlog

from gateway.errors import Conflict
from gateway.fleet.peers.channel import Peers
from gateway.fleet.registry import FleetRegistry
from gateway.kafka.connection.errors import NetError
from gateway.state.store import StateStore

READ = "read"
COMMITS_SETTLED = "commits_settled"
CLOSE_GATE = "close_gate"
OPEN_GATE = "open_gate"

_READ_S = 5.0
_CLOSE_S = 12.0  # a commit under way is awaited for 10 s
_ASK_S = 2.0
_AGAIN_S = 0.1
_TELL_AGAIN_S = 0.5
_log = structlog.get_logger("lockgate.fleet")


class FleetQuorum:
    """What every other gateway must do before the leader goes on.

    Attributes:
        closed: groups whose gates are closed by command, whatever their records say.
    """

    def __init__(self, me: str, store: StateStore, registry: FleetRegistry, peers: Peers, term: int) -> None:
        self._me = me
        self._store = store
        self._registry = registry
        self._peers = peers
        self._term = term
        self._commands = 0
        self.closed: set[str] = set()

    async def read_by_all(self) -> None:
        """Until every gateway that may serve a client has read the state up to here.

        Raises:
            Conflict: one of them is lost, or does not come to it in 5 s; the message says what can be done.
        """
        await self._all(READ, {"offset": self._store.applied}, _READ_S)

    async def commits_settled(self, group: str) -> None:
        """Until every other gateway has read the state up to here, and no commit of the group that it sent before is
        under way. Raises as before, after 12 s."""
        await self._all(COMMITS_SETTLED, {"group": group, "offset": self._store.applied}, _CLOSE_S)

    async def close_gate(self, group: str) -> None:
        """Close the group's gate everywhere else, and wait until no commit of it is under way. Raises as before."""
        self.closed.add(group)
        await self._all(CLOSE_GATE, self._command(group), _CLOSE_S)

    def gate_by_record(self, group: str) -> Coroutine[Any, Any, None]:
        """What the group's record says as of now is in force again everywhere.

        Returns what tells it: it ends when everybody has been told who has to know, and never raises. A gate that is
        shut again meanwhile stays so.
        """
        self.closed.discard(group)
        return self._tell_open(group, self._command(group))

    async def _tell_open(self, group: str, body: Mapping[str, Any]) -> None:
        told, warned = set[str](), set[str]()
        while group not in self.closed and (untold := sorted(self._others() - told)):
            asked = (self._ask(name, OPEN_GATE, body, _ASK_S) for name in untold)
            for name, reason in zip(untold, await asyncio.gather(*asked), strict=True):
                if not reason:
                    told.add(name)
                elif name not in warned:
                    warned.add(name)
                    _log.warning("a gateway is not told yet to open a gate", group=group, gateway=name, reason=reason)
            if self._others() - told:
                await asyncio.sleep(_TELL_AGAIN_S)

    def _command(self, group: str) -> Mapping[str, Any]:
        """See `groups/gate/rules/commands.py`."""
        self._commands += 1
        return {"group": group, "offset": self._store.applied, "number": self._commands}

    def _others(self) -> frozenset[str]:
        return self._registry.required() - {self._me}

    async def _all(self, what: str, body: Mapping[str, Any], limit_s: float) -> None:
        loop = asyncio.get_running_loop()
        deadline, done, reasons = loop.time() + limit_s, set[str](), dict[str, str]()
        while missing := self._others() - done:
            if lost := self._registry.lost():
                raise Conflict(lost)
            if loop.time() >= deadline:
                raise Conflict("; ".join(reasons.get(name, f"gateway '{name}' does not answer") for name in missing))
            asked = {name: self._ask(name, what, body, deadline - loop.time()) for name in missing}
            for name, reason in zip(asked, await asyncio.gather(*asked.values()), strict=True):
                if reason:
                    reasons[name] = reason
                else:
                    done.add(name)
            if self._others() - done:
                await asyncio.sleep(_AGAIN_S)

    async def _ask(self, name: str, what: str, body: Mapping[str, Any], left_s: float) -> str:
        """'' when it was done, else why not."""
        try:
            await self._peers.ask(name, what, {**body, "term": self._term}, max(0.1, left_s))
        except NetError as exc:
            return str(exc)
        return ""
