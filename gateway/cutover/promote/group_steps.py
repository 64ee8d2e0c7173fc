"""The steps of a promote for the groups that change sides with its topics: what each is, `groups/moves.py` knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from gateway.cutover.promote.gather import Gatherer, PromoteTools
from gateway.cutover.promote.pause import PromotePause
from gateway.cutover.promote.rules.checks import InvariantViolated
from gateway.cutover.promote.rules.memory import PromoteMemory
from gateway.cutover.promote.rules.snapshot import PromoteStep
from gateway.groups.moves import GroupSet

_HOLD_S: Final = 60.0  # whoever holds a group gives it up by then; a promote that is ended waits for nothing of it


class GroupSteps:
    """Of one run. The first two come before the write pause, the others have what time is left of it."""

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
        """Where their members are, and what they have committed."""
        if step.delay_s:
            await self._tools.sleep(step.delay_s)
        await self._groups.look()

    async def hold(self, step: PromoteStep) -> None:
        """Keep other operations away from them."""
        if step.delay_s:
            await self._tools.sleep(step.delay_s)
        await self._groups.tried(self._groups.hold, _HOLD_S)

    async def shut(self, step: PromoteStep) -> None:
        """Shut their gates at every gateway."""
        await self._under_pause(step, self._groups.shut)

    async def read(self, step: PromoteStep) -> None:
        """Read what they have committed last."""
        await self._under_pause(step, self._groups.read)

    async def commit(self, step: PromoteStep) -> None:
        """Commit it on the other side, translated."""
        ends = {topic: handed for topic in self._topics if (handed := self._memory.handed(topic)) is not None}
        await self._under_pause(step, lambda: self._groups.commit(ends))

    async def check(self, step: PromoteStep) -> None:
        """Nothing was committed meanwhile."""
        await self._under_pause(step, self._groups.check_again)

    async def _under_pause(self, step: PromoteStep, work: Callable[[], Awaitable[None]]) -> None:
        if step.delay_s:
            await self._tools.sleep(step.delay_s)
        await self._groups.tried(work, max(0.01, self._pause.left_s()))
