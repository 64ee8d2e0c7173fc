"""What the fleet says when somebody asks in the course of a run: a dry run right before an operation is asked for, and
the leader's metrics at rest. Of runs that have `asks`; others go on as they would without being asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.state.records import MirrorMode, MirrorRecord
from tests.simulation.fleet.gateway_node import NotServing
from tests.simulation.judge.asked import Ends, wrong_failover, wrong_scrape
from tests.simulation.operations.operator import LINK

if TYPE_CHECKING:
    from tests.simulation.world import World

_ANSWER_S: Final = 10.0


class Asked:
    """Of one run."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def before_failover(self, topic: str) -> None:
        """What it would leave behind, held against both logs. Not of a topic whose copy has other offsets."""
        mirror = self._mirror(topic)
        if not self._world.plan.asks or mirror is None or mirror.mode is not MirrorMode.PRESERVE or mirror.is_reverse:
            return
        before, cut_off = self._ends(mirror), self._is_cut_off()
        path = f"/v3/links/{LINK}/mirrors/{topic}:failover?validate_only=true"
        code, shown = await self._world.operator.say("POST", path, {})
        after, now = self._ends(mirror), self._mirror(topic)
        if code != 200 or now is None or now.cutover != mirror.cutover or now.mode is not mirror.mode:
            return
        if cut_off or self._is_cut_off():  # a leader that has lost its cluster tells of what it has
            return
        for what in wrong_failover(shown, before, after):
            if self._world.judge.findings.add("claims_wrong", topic, what, self._world.loop.time()):
                self._world.story.tell("judge", f"claims_wrong: {topic}: {what}")

    async def scraped(self) -> str:
        """The leader's metrics; '' when nobody leads, or does not answer."""
        leader = self._world.leader() if self._world.plan.asks else None
        if leader is None:
            return ""
        try:
            code, text = await leader.api.request("GET", "/metrics", None, _ANSWER_S)
        except NotServing:
            return ""
        return text if code == 200 and isinstance(text, str) else ""

    @staticmethod
    def wrong(text: str, mirror: MirrorRecord, shown: dict[str, Any]) -> list[str]:
        """`text`: of `scraped`; `shown`: what `describe` says of the mirror."""
        told = sum((shown["records_after_cutover"] or {}).values())
        return list(wrong_scrape(text, mirror.mirror_topic, told))

    def _mirror(self, topic: str) -> MirrorRecord | None:
        self._world.judge.look()
        mirrors = self._world.judge.state.mirrors
        return next((each for each in mirrors if (each.link, each.mirror_topic) == (LINK, topic)), None)

    def _ends(self, mirror: MirrorRecord) -> dict[int, Ends]:
        source, target = self._world.source, self._world.target
        found: dict[int, Ends] = {}
        for index in range(len(mirror.starts)):
            _, end, readable, _ = source.log_range(mirror.source_topic, index)
            _, copy, copied, _ = target.log_range(mirror.mirror_topic, index)
            found[index] = Ends(readable, end, copied, copy)
        return found

    def _is_cut_off(self) -> bool:
        return any(broker.cut_off for broker in self._world.source.brokers.values())
