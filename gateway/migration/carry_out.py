"""Carries one step of a migration out, by the operation that people have for it. What it is called by: `run.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import Conflict
from gateway.groups.operations import Groups
from gateway.migration.pauses import PausesSeen
from gateway.migration.promote_sets import PromotesSets
from gateway.migration.rules.resolve import ApplicationPlan, MigrationStepKind, PlannedStep
from gateway.operations.records import Records
from gateway.state.link_config import LinkConfig, parse
from gateway.state.records import MirrorState
from gateway.topics.mirrors import Mirrors
from gateway.topics.plan import Wanted

PROMOTE_S: Final = 120.0
"""For how long the end of a promote is awaited, to note how it went; the promote itself has limits of its own."""
PAUSE_TOLD_S: Final = 2.0
"""For how long the length of its write pause is awaited behind a cutover."""
_LOOK_S: Final = 0.1


class StepOutcome(NamedTuple):
    """What came of a step. `pause_ms`: -1 where no writes were paused."""

    detail: str = ""
    pause_ms: int = -1


class StepExecutor:
    """Of all links."""

    def __init__(
        self,
        *,
        records: Records,
        mirrors: Mirrors,
        groups: Groups,
        sets: PromotesSets,
        pauses: PausesSeen,
        clock: Callable[[], float],
    ) -> None:
        self._records = records
        self._mirrors = mirrors
        self._groups = groups
        self._sets = sets
        self._pauses = pauses
        self._clock = clock

    async def step(self, link: str, plan: ApplicationPlan, step: PlannedStep) -> StepOutcome:
        """One step of an application.

        Raises:
            ControlError, WrongState, WrongLength, StoreError: it was refused, or did not come to its end; the reason.
        """
        config = parse(self._records.link(link).configs)
        if step.kind is MigrationStepKind.CREATE_MIRROR:
            await self._create(link, plan, step.topics[0])
            return StepOutcome()
        if step.kind is MigrationStepKind.DECLARE_GROUP:
            await self._groups.create(link, config.target_group(step.groups[0]))
            return StepOutcome()
        return await self._promote(link, config, step.topics, step.groups)

    async def _create(self, link: str, plan: ApplicationPlan, topic: str) -> None:
        options = plan.application.options
        wanted = Wanted(configs=options.configs, replication_factor=options.replication_factor, start=options.start)
        await self._mirrors.create(link, topic, wanted=wanted)

    async def _promote(
        self, link: str, config: LinkConfig, topics: Sequence[str], groups: Sequence[str]
    ) -> StepOutcome:
        begun = self._clock()
        names = [config.mirror_topic(name) for name in topics]
        along = [config.target_group(name) for name in groups]
        await self._sets.promote(link, names, along)
        if not names:
            return StepOutcome(self._carried(link, along))
        await self._until_over(link, names)
        told_by = self._clock() + PAUSE_TOLD_S
        while True:  # the record says STOPPED a moment before the pause is over
            pause_ms = self._pauses.since(link, names, begun)
            if pause_ms >= 0 or self._clock() >= told_by:
                return StepOutcome(self._carried(link, along) if along else "", pause_ms=pause_ms)
            await asyncio.sleep(_LOOK_S)

    async def _until_over(self, link: str, names: Sequence[str]) -> None:
        """Raises Conflict when the topics are not written on the target in the end, or not in time."""
        deadline = self._clock() + PROMOTE_S
        while True:
            records = {name: self._mirrors.record(link, name) for name in names}
            open_ends = [name for name, record in records.items() if record.state is MirrorState.PENDING_STOPPED]
            if not open_ends:
                break
            if self._clock() >= deadline:
                raise Conflict(f"mirror topic '{open_ends[0]}' is being promoted for {PROMOTE_S:g} s; it goes on")
            await asyncio.sleep(_LOOK_S)
        for name, record in records.items():
            if not written_on_target(record):  # its mirror back may have begun by now
                view = self._mirrors.view(record)
                raise Conflict(
                    f"the promote ended with '{name}' {record.state.value}: {view.promote_error or 'no reason told'}"
                )

    def _carried(self, link: str, groups: Sequence[str]) -> str:
        records = [self._records.store.groups.get((link, group)) for group in groups]
        offsets = sum(len(record.offsets) for record in records if record is not None)
        return f"{offsets} offset(s) carried over"
