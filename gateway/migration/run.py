"""Carries migrations out while this gateway leads: looks at the world, takes the steps that wait for nothing, again.

Nothing but the record is kept between two looks, so whoever leads next goes on. A step that is refused is tried again
later and later; the reason is shown, and noted once. Steps of one application are taken one after the other, but for
mirrors, of which several are created at once; promotes of topics go one at a time, so that one write pause is over
before the next begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog

from gateway.errors import ControlError
from gateway.kafka.connection.errors import NetError
from gateway.migration.carry_out import StepExecutor, StepOutcome
from gateway.migration.migrations import LIVE, Migrations
from gateway.migration.rules.resolve import CUTOVERS, ApplicationPlan, MigrationPlan, MigrationStepKind, PlannedStep
from gateway.migration.rules.stop_rules import Fired, fired, unmeasured
from gateway.operations.records import Records
from gateway.state.migration_records import JournalEntry, MigrationRecord, MigrationState
from gateway.state.store import ProducerFenced, StoreError
from gateway.topics.promote_plan import REFUSALS
from gateway.transport.background import Background

LOOK_EVERY_S: Final = 1.0
REST_S: Final = 5.0
"""The longest time between two looks, while nothing happens that a record would tell."""
AT_ONCE: Final = 8
"""Steps of one migration that are under way."""
_BACKOFF_S: Final = (2.0, 60.0)
_TROUBLE: Final = (*REFUSALS, NetError, StoreError, TimeoutError, OSError)
STOPPED_BY_RULE: Final = "STOPPED_BY_RULE"
_log = structlog.get_logger("lockgate.control")


@dataclass(slots=True)
class _Failed:
    """A step that was refused. `at`: monotonic seconds of its next try."""

    message: str
    tries: int
    at: float


class _Look(NamedTuple):
    """The last look at a migration. `seen`: what it saw of the records and of steps under way; the next one comes after
    `pause_s`."""

    seen: tuple[int, int]
    at: float
    pause_s: float


class MigrationRun:
    """Of all migrations."""

    def __init__(
        self,
        *,
        records: Records,
        migrations: Migrations,
        carry_out: StepExecutor,
        background: Background,
        clock: Callable[[], float],
    ) -> None:
        self._records = records
        self._store = records.store
        self._migrations = migrations
        self._carry_out = carry_out
        self._background = background
        self._clock = clock
        self._failed: dict[tuple[str, str], _Failed] = {}
        self._looks: dict[str, _Look] = {}

    async def run_due(self) -> None:
        """One look at each migration that may go on; of one that is RUNNING the steps go on in the background."""
        names, told = self._store.migrations.keys(), self._migrations.problems
        self._failed = {key: one for key, one in self._failed.items() if key[0] in names}
        self._looks = {name: one for name, one in self._looks.items() if name in names}
        for name in told.keys() - names:
            del told[name]
        for record in list(self._store.migrations.values()):
            if record.state not in LIVE:
                told.pop(record.name, None)
                continue
            if not self._is_to_be_looked_at(record.name):
                continue
            try:
                await self._look(record)
            except ProducerFenced:
                return  # whoever leads now looks
            except _TROUBLE as exc:
                self._migrations.failures[record.name] = {"look": str(exc) or type(exc).__name__}

    async def _look(self, record: MigrationRecord) -> None:
        file = self._migrations.file_of(record)
        if trouble := self._migrations.trouble(record):
            self._migrations.problems[record.name] = (trouble,)
            return
        plan, world = await self._migrations.plan_of(record)
        self._migrations.problems[record.name] = plan.all_problems
        if record.state is not MigrationState.RUNNING:
            return
        if not plan.is_done and (rule := fired(file, plan, world, record.accepted)) is not None:
            await self._stop(record, rule)
            return
        running = self._migrations.running.setdefault(record.name, set())
        self._tell(record.name, plan)
        if plan.is_done:
            if not running:
                entry = JournalEntry(self._records.now_ms(), MigrationState.DONE.value)
                await self._migrations.change(record, entry, MigrationState.DONE)
            return
        held = unmeasured(file, plan, world)
        for one, step in due(plan):
            if len(running) >= AT_ONCE:
                return
            key = key_of(one, step)
            if held and step.kind in CUTOVERS:
                self._migrations.failures[record.name][key] = held
                continue
            if key in running or not self._is_due(record.name, key) or self._is_held(record.name, step):
                continue
            running.add(key)
            self._background.spawn(self._take(record, one, step, key), f"migration {record.name}: {key}")

    async def _stop(self, record: MigrationRecord, rule: Fired) -> None:
        """Take no further step; who goes on accepts the value."""
        _log.warning("migration stopped by a rule of its file", migration=record.name, rule=str(rule))
        entry = JournalEntry(self._records.now_ms(), STOPPED_BY_RULE, detail=str(rule), names=(rule.about,))
        await self._migrations.change(
            record, entry, MigrationState.PAUSED, accepted=rule.accepted, stopped_by=str(rule)
        )

    def _is_to_be_looked_at(self, name: str) -> bool:
        """The longer nothing happens, the later; at once when a record has changed or a step is over."""
        now, last = self._clock(), self._looks.get(name)
        seen = self._store.applied, len(self._migrations.running.get(name, ()))
        if last is None or last.seen != seen:
            self._looks[name] = _Look(seen, now, LOOK_EVERY_S)
            return True
        if now - last.at < last.pause_s:
            return False
        self._looks[name] = _Look(seen, now, min(last.pause_s * 1.5, REST_S))
        return True

    def _is_due(self, name: str, key: str) -> bool:
        failed = self._failed.get((name, key))
        return failed is None or self._clock() >= failed.at

    def _tell(self, name: str, plan: MigrationPlan) -> None:
        """Failures of steps that are still to be taken; the others are over."""
        left = {key_of(one, step) for one in plan.applications for step in one.steps}
        self._failed = {key: one for key, one in self._failed.items() if key[0] != name or key[1] in left}
        self._migrations.failures[name] = {key[1]: one.message for key, one in self._failed.items() if key[0] == name}

    async def _take(self, record: MigrationRecord, one: ApplicationPlan, step: PlannedStep, key: str) -> None:
        try:
            if not self._still(record) or not await self._still_due(record, one, step):
                return  # the next look decides anew
            done = await self._carry_out.step(record.link, one, step)
            self._failed.pop((record.name, key), None)
            await self._note(record, one, step, done)
        except ProducerFenced:
            return
        except _TROUBLE as exc:
            await self._refused(record, one, step, key, str(exc) or type(exc).__name__)
        finally:
            self._migrations.running.get(record.name, set()).discard(key)

    def _is_held(self, name: str, step: PlannedStep) -> bool:
        """A promote of topics waits until another one is over."""
        return step.kind in CUTOVERS and bool(self._migrations.promoting(name))

    def _still(self, record: MigrationRecord) -> bool:
        """The file that the step comes of still counts, and its link is the one that was asked."""
        now = self._store.migrations.get(record.name)
        is_same = now is not None and now.state is MigrationState.RUNNING and now.file == record.file
        return is_same and not self._migrations.trouble(record)

    async def _still_due(self, record: MigrationRecord, one: ApplicationPlan, step: PlannedStep) -> bool:
        """Asked right before a promote, with the names that the source has now, its windows and its rules."""
        if step.kind not in CUTOVERS:
            return True
        file = self._migrations.file_of(record)
        plan, world = await self._migrations.plan_of(record, fresh=True)
        if fired(file, plan, world, record.accepted) is not None or unmeasured(file, plan, world):
            return False
        asked = one.application.name, step
        return self._still(record) and any((now.application.name, left) == asked for now, left in due(plan))

    async def _note(self, record: MigrationRecord, one: ApplicationPlan, step: PlannedStep, done: StepOutcome) -> None:
        _log.info("migration step", migration=record.name, application=one.application.name, step=step.kind.value)
        entry = JournalEntry(
            at_ms=self._records.now_ms(),
            what=step.kind.value,
            application=one.application.name,
            names=(*step.topics, *step.groups),
            detail=done.detail,
            pause_ms=done.pause_ms,
        )
        await self._migrations.change(record, entry)

    async def _refused(
        self, record: MigrationRecord, one: ApplicationPlan, step: PlannedStep, key: str, message: str
    ) -> None:
        before = self._failed.get((record.name, key))
        tries = 1 if before is None else before.tries + 1
        wait_s = min(_BACKOFF_S[0] * 2 ** min(tries - 1, 10), _BACKOFF_S[1])
        self._failed[record.name, key] = _Failed(message, tries, self._clock() + wait_s)
        if before is not None and before.message == message:
            return
        _log.warning("migration step refused", migration=record.name, step=key, reason=message)
        entry = JournalEntry(
            at_ms=self._records.now_ms(),
            what=f"{step.kind.value}_REFUSED",
            application=one.application.name,
            names=(*step.topics, *step.groups),
            detail=message[:500],
        )
        try:
            await self._migrations.change(record, entry)
        except (ControlError, StoreError) as exc:
            _log.warning("migration journal not written", migration=record.name, reason=str(exc))


def key_of(one: ApplicationPlan, step: PlannedStep) -> str:
    """Names a step for people, and tells it from others."""
    names = (*step.topics, *step.groups)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{step.kind.value} {one.application.name}: {names[0] if names else ''}{more}"


def due(plan: MigrationPlan) -> Iterator[tuple[ApplicationPlan, PlannedStep]]:
    """The steps that wait for nothing. Of an application whose mirrors are not all there, only creates."""
    for one in plan.applications:
        creates = [step for step in one.steps if step.kind is MigrationStepKind.CREATE_MIRROR]
        for step in one.steps:
            if not step.waits_for and (
                not creates or step.kind in (MigrationStepKind.CREATE_MIRROR, MigrationStepKind.DECLARE_GROUP)
            ):
                yield one, step
