"""The console at one gateway: where its feed looks, and what each gateway tells of its clients."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.api.access.roles import Caller, Role
from gateway.api.leader_forwarding import LeaderForwarding, Question
from gateway.console.feed import Feed, Trouble
from gateway.console.rules.sections import Snapshot
from gateway.console.rules.snapshot import ClientsSeen
from gateway.console.timeline import Timeline
from gateway.fleet.peers.channel import Peers
from gateway.kafka.connection.errors import NetError

ASK: Final = "writes"
_UNMIRRORED: Final = "unmirrored"
_ANSWER_S: Final = 0.5
# The feed asks for all who listen; each of them has shown that it may read.
_READER: Final = Caller("console", Role.VIEWER, "feed")


class FleetClients:
    """What clients do at all gateways. Of this process: `writes`, route -> Produce requests so far; `unmirrored`,
    topics that they ask for and nobody mirrors -> link, and the client.

    One that does not answer in time is left out for that look; its page shows a dip, and no client waits for it.
    """

    def __init__(
        self,
        peers: Peers,
        writes: Callable[[], Mapping[str, int]],
        unmirrored: Callable[[], Mapping[str, tuple[str, str]]],
    ) -> None:
        self._peers = peers
        self._writes = writes
        self._unmirrored = unmirrored
        peers.handlers[ASK] = self._answer

    async def __call__(self) -> ClientsSeen:
        """Of all that answer."""
        told = await asyncio.gather(*(self._ask(name) for name in self._peers.connected()))
        total, unmirrored = Counter(self._writes()), dict(self._unmirrored())
        for said in told:
            total.update(said.writes)
            unmirrored |= said.unmirrored
        return ClientsSeen(total, unmirrored)

    async def _ask(self, name: str) -> ClientsSeen:
        try:
            said = await self._peers.ask(name, ASK, {}, _ANSWER_S)
            writes = {str(route): int(count) for route, count in said[ASK].items()}
            unmirrored = {str(one): (str(link), str(who)) for one, (link, who) in said.get(_UNMIRRORED, {}).items()}
            return ClientsSeen(writes, unmirrored)
        except (NetError, KeyError, ValueError, TypeError, AttributeError):  # gone, slow, or of an older version
            return ClientsSeen({}, {})

    async def _answer(self, _body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {ASK: dict(self._writes()), _UNMIRRORED: dict(self._unmirrored())}


def console_feed(forwarding: Callable[[], LeaderForwarding], timeline: Timeline, clock: Callable[[], float]) -> Feed:
    """The feed of one gateway: what the leader knows, and what this one saw happen."""

    async def look() -> Snapshot:
        question = Question("GET", "/v3/console", "", b"", _READER, "")
        answer = await forwarding().answer(question)
        try:
            said = json.loads(bytes(answer.body))
        except ValueError:
            raise Trouble(f"the leader's answer is no snapshot (HTTP {answer.status_code})") from None
        if answer.status_code == 404:
            raise Trouble("the gateway that leads is of an older version, without a console")
        if answer.status_code != 200:
            raise Trouble(str(said.get("message", f"HTTP {answer.status_code}")))
        return {**said["sections"], "events": timeline.rows()}

    return Feed(look, clock)
