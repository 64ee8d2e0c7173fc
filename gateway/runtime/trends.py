"""Trends at one gateway: each gateway asks the leader how things stand, and keeps what it heard.

So whoever leads next has heard the same, and goes on; while nobody leads nothing is heard, and that is a gap. A gateway
that begins asks the others once for what they have; when all of a fleet are begun anew at once, trends begin anew, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.api.access.roles import Caller, Role
from gateway.api.leader_forwarding import LeaderForwarding, Question
from gateway.console.rules.trends import Trends
from gateway.fleet.peers.channel import Peers
from gateway.kafka.connection.errors import NetError

TOLD: Final = "trends"
_AFTER: Final = "after"
_PAGE: Final = 40  # objects in an answer: some 200 kB
_LOOKS: Final = 20  # a gateway that nobody has told anything by then has nobody to ask
_ANSWER_S: Final = 5.0
_READER: Final = Caller("trends", Role.VIEWER, "feed")


class TrendKeeper:
    """`look` is called every `EVERY_S` (`console/rules/levels.py`)."""

    def __init__(self, peers: Peers, forwarding: Callable[[], LeaderForwarding]) -> None:
        self.trends = Trends()
        self._peers = peers
        self._forwarding = forwarding
        self._looks_left = _LOOKS
        peers.handlers[TOLD] = self._tell

    async def look(self) -> None:
        """Hear how things stand, and while nobody has told yet, how they stood."""
        question = Question("GET", "/v3/console/levels", "", b"", _READER, "")
        answer = await self._forwarding().answer(question)
        if answer.status_code == 200:  # else nobody leads now, or the leader is of an older version
            said = json.loads(bytes(answer.body))
            self.trends.add(int(said["at_ms"]), said["levels"])
        if self._looks_left:
            self._looks_left -= 1
            for name in sorted(self._peers.connected()):
                if await self._told_by(name):
                    self._looks_left = 0
                    return

    async def _told_by(self, name: str) -> bool:
        """All that a gateway has; False when it does not answer, or has not heard anything itself."""
        after = ""
        try:
            while said := (await self._peers.ask(name, TOLD, {_AFTER: after}, _ANSWER_S))[TOLD]:
                if max(said) <= after:
                    return False
                self.trends.join(said)
                after = max(said)
        except (NetError, KeyError, ValueError, TypeError, AttributeError):  # gone, or of another version
            return False
        return after != ""

    async def _tell(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {TOLD: self.trends.told(str(body.get(_AFTER, "")), _PAGE)}
