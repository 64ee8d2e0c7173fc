"""The console at one gateway: where its feed looks, and what each gateway tells of the writes that it passes on."""

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
from gateway.console.timeline import Timeline
from gateway.fleet.peers.channel import Peers
from gateway.kafka.connection.errors import NetError

ASK: Final = "writes"
_ANSWER_S: Final = 0.5
# The feed asks for all who listen; each of them has shown that it may read.
_READER: Final = Caller("console", Role.VIEWER, "feed")


class FleetWrites:
    """How many Produce requests went where, at all gateways. `own`: route -> requests so far, of this process.

    One that does not answer in time is left out for that look; its page shows a dip, and no client waits for it.
    """

    def __init__(self, peers: Peers, own: Callable[[], Mapping[str, int]]) -> None:
        self._peers = peers
        self._own = own
        peers.handlers[ASK] = self._answer

    async def __call__(self) -> Mapping[str, int]:
        """Of all that answer."""
        told = await asyncio.gather(*(self._ask(name) for name in self._peers.connected()))
        total = Counter(self._own())
        for said in told:
            total.update(said)
        return total

    async def _ask(self, name: str) -> Mapping[str, int]:
        try:
            said = (await self._peers.ask(name, ASK, {}, _ANSWER_S))[ASK]
            return {str(route): int(count) for route, count in said.items()}
        except (NetError, KeyError, ValueError, AttributeError):  # gone, slow, or of an older version
            return {}

    async def _answer(self, _body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {ASK: dict(self._own())}


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
