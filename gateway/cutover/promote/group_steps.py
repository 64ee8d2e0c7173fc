"""The steps of a promote for the groups that change sides with its topics. `groups/moves.py` carries them out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from gateway.cutover.promote.gather import Gatherer, PromoteTools
from gateway.cutover.promote.pause import PromotePause
from gateway.cutover.promote.rules.checks import InvariantViolated
from gateway.cutover.promote.rules.memory import PromoteMemory
from gateway.cutover.promote.rules.snapshot import PromoteStep
from gateway.groups.moves import GroupSet

_HOLD_S: Final = 60.0  # an operation that holds a group releases it by then; `end` does not wait for it


class GroupSteps:
    """The group steps of one run. The first two come before the write pause, the others have the rest of its time."""

    def __init__(
        self,
        tools: PromoteTools,
        topics: Sequence[str],
        gather: Gatherer,
        memory: PromoteMemory,
        pause: PromotePause,
    ) -> None:
        self._tools = tools
        self._topics = topics
        self._gather = gather
        self._memory = memory
        self._pause = pause

    @property
    def _groups(self) -> GroupSet:
        if self._gather.groups is None:
            raise InvariantViolated("a step for groups of a promote that has none")
        return self._gather.groups

    async def look(self, step: PromoteStep) -> None:
        """Look where the groups' members are, and what they have committed."""
        if step.delay_s:
            await self._tools.sleep(step.delay_s)
        await self._groups.look()

    async def hold(self, step: PromoteStep) -> None:
        """Keep other operations away from the groups."""
        if step.delay_s:
            await self._tools.sleep(step.delay_s)
        await self._groups.tried(self._groups.hold, _HOLD_S)

    async def shut(self, step: PromoteStep) -> None:
        """Shut the groups' gates at every gateway."""
        await self._under_pause(step, self._groups.shut)

    async def read(self, step: PromoteStep) -> None:
        """Read the groups' last committed offsets."""
        await self._under_pause(step, self._groups.read)

    async def commit(self, step: PromoteStep) -> None:
        """Commit these offsets on the other cluster, translated."""
        ends = {topic: handed for topic in self._topics if (handed := self._memory.handed(topic)) is not None}
        await self._under_pause(step, lambda: self._groups.commit(ends))

    async def check(self, step: PromoteStep) -> None:
        """Check that the other cluster has these offsets, and that nothing was committed at the origin meanwhile."""
        await self._under_pause(step, self._groups.check_again)

    async def _under_pause(self, step: PromoteStep, work: Callable[[], Awaitable[None]]) -> None:
        if step.delay_s:
            await self._tools.sleep(step.delay_s)
        await self._groups.tried(work, max(0.01, self._pause.left_s()))
