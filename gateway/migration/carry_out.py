"""Carries one step of a migration out, by the operation that people have for it. What it is called by: `run.py`.

The journal tells how long writes were paused: the last write pause of each topic is remembered while a gateway leads.
Of each topic, since topics of one link are promoted side by side: by two migrations, or by a migration and by hand. The
journal of one does not tell of another's pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple, Protocol

from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import Conflict
from gateway.groups.operations import Groups
from gateway.migration.rules.resolve import ApplicationPlan, MigrationStepKind, PlannedStep
from gateway.operations.records import Records
from gateway.state.link_config import LinkConfig, parse
from gateway.state.records import MirrorState
from gateway.telemetry.numbers import LastPause
from gateway.topics.mirrors import Mirrors
from gateway.topics.plan import Wanted

CUT_OVER: Final = "stopped"
"""The outcome of a pause that ended in a cutover."""


class PauseSeen(NamedTuple):
    """`at`: monotonic seconds of its end."""

    at: float
    outcome: str
    seconds: float


class PausesSeen:
    """Written by promotes as they end."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[tuple[str, str], PauseSeen] = {}

    def ended(self, link: str, topics: Collection[str], outcome: str, seconds: float) -> None:
        """A write pause of these mirror topics of the link is over."""
        self._last |= dict.fromkeys([(link, topic) for topic in topics], PauseSeen(self._clock(), outcome, seconds))

    def since(self, link: str, topics: Collection[str], begun: float) -> int:
        """Milliseconds of the pause of these mirror topics that has ended in a cutover since; -1 when none has."""
        seen = {self._last.get((link, topic)) for topic in topics}
        (one,) = seen if len(seen) == 1 else (None,)
        return -1 if one is None or one.at < begun or one.outcome != CUT_OVER else round(one.seconds * 1000)

    def last(self, link: str, topic: str) -> LastPause | None:
        """The last one of a mirror topic, however it ended."""
        seen = self._last.get((link, topic))
        return None if seen is None else LastPause(self._clock() - seen.at, seen.seconds)

    def forget(self, link: str, topic: str) -> None:
        """Its mirror was deleted."""
        self._last.pop((link, topic), None)


class PromotesSets(Protocol):
    """Promotes a set."""

    async def promote(self, link: str, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Begin to promote what is left of a set; whoever asks looks at the world for how it goes on.

        Args:
            topics: mirror topics that are not promoted yet. groups: mirror groups likewise.

        Raises:
            ControlError, WrongState: refused, or given up, with the reason; nothing is paused then.
        """


class PromotesTopics(Protocol):
    """`Mirrors`, as far as it is needed."""

    async def promote(self, link: str, topics: Sequence[str], *, groups: Sequence[str] = ()) -> Any:
        """Promote the topics, and groups with them as one set."""


class PromotesGroups(Protocol):
    """`Groups`, as far as it is needed."""

    async def promote(self, link: str, group: str) -> Any:
        """Promote the group."""


class SetPromotion:
    """Topics and groups change sides under one write pause, by one write of the state.

    Groups alone are what is left of a set whose topics are promoted already: they go one by one.
    """

    def __init__(self, topics: PromotesTopics, groups: PromotesGroups) -> None:
        self._topics = topics
        self._groups = groups

    async def promote(self, link: str, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Promote topics with their groups as one set; without topics, each group for itself."""
        if topics:
            await self._topics.promote(link, topics, groups=groups)
            return
        for group in groups:
            await self._groups.promote(link, group)


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
