"""Undo of a migration: what `rules/undo.py` says goes home, by the operations that people have for it.

The migration is PAUSED first, so that nothing is promoted again behind it. What is asked again goes on: groups that are
demoted already are left out, and so are topics that are home.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from gateway.cutover.failback.undo import Undos
from gateway.errors import BadRequest, Conflict, ControlError
from gateway.groups.operations import Groups
from gateway.migration.migrations import Migrations, MigrationView
from gateway.migration.rules.undo import UndoCandidate, goes_home
from gateway.operations.records import Records
from gateway.state.migration_records import JournalEntry, MigrationRecord, MigrationState
from gateway.state.store import StoreError
from gateway.topics.promote_plan import REFUSALS

UNDO: Final = "UNDO"
NOT_UNDONE: Final = "UNDO_REFUSED"
_AT_ONCE: Final = 8
"""Groups that are demoted side by side."""
_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What goes home, by names of the target; `view`: the migration then."""

    home: UndoCandidate
    view: MigrationView


class MigrationUndo:
    """Of all migrations."""

    def __init__(self, *, records: Records, migrations: Migrations, undos: Undos, groups: Groups) -> None:
        self._records = records
        self._migrations = migrations
        self._undos = undos
        self._groups = groups

    async def undo(
        self,
        name: str,
        application: str,
        by: str,
        *,
        with_groups: bool = False,
        keep_late: bool = False,
        validate_only: bool = False,
    ) -> Undone:
        """Take an application home, or all of the migration (''); topics go on behind this, as one set.

        Args:
            by: who asks, for the journal.
            keep_late: what somebody wrote to the source beside the gateway goes home in its place, where it can.
            with_groups: demote groups that only read, too; those that move `together` with topics always go with them.

        Raises:
            NotFound: there is no such migration. BadRequest: the file has no such application.
            Conflict, WrongState, SourceUnreachable, TargetUnreachable: refused, with the remedy. Nothing has changed
            but groups that were demoted before one that could not be; asking again goes on.
        """
        record = self._migrations.record(name)
        self._require_no_promote(name)
        home = await self._home(record, application, with_groups=with_groups)
        await self._check(record, home, keep_late=keep_late)
        if validate_only:
            return Undone(home=home, view=await self._migrations.describe(name))
        before = await self._paused(record, application, by, home)
        try:
            self._require_no_promote(name)
            await self._demote(record.link, home.demoted)
            await self._undos.undo(record.link, home.topics, groups=home.groups, migration=name, keep_late=keep_late)
        except REFUSALS as exc:
            await self._as_before(before, application, by, str(exc))
            raise
        return Undone(home=home, view=await self._migrations.describe(name))

    def _require_no_promote(self, name: str) -> None:
        """What is being promoted would stay on the target, behind an undo of all of it."""
        if step := self._migrations.promoting(name):
            raise Conflict(f"{step} is under way: lockgate migration pause {name}, and ask again when it is over")

    async def _home(self, record: MigrationRecord, application: str, *, with_groups: bool) -> UndoCandidate:
        plan, world = await self._migrations.plan_of(record)
        chosen = [one for one in plan.applications if application in ("", one.application.name)]
        if not chosen:
            raise BadRequest(f"migration '{record.name}' has no application '{application}'")
        home = goes_home(chosen, world, with_groups=with_groups)
        if not home.topics:
            raise Conflict(f"no topic of {application or record.name} is written on the target: nothing to undo")
        return home

    async def _check(self, record: MigrationRecord, home: UndoCandidate, *, keep_late: bool) -> None:
        """What would be refused before anything is begun."""
        await self._undos.undo(record.link, home.topics, migration=record.name, keep_late=keep_late, validate_only=True)
        for group in home.demoted:
            plan = await self._groups.demote_plan(record.link, group)
            if plan.blocker:
                raise Conflict(f"group '{group}' cannot be demoted: {plan.blocker}")

    async def _paused(
        self, record: MigrationRecord, application: str, by: str, home: UndoCandidate
    ) -> tuple[MigrationRecord, MigrationState]:
        """The record as it is then, and the state before."""
        names = (*home.topics, *home.groups, *home.demoted)
        entry = JournalEntry(self._records.now_ms(), UNDO, application=application, names=names, by=by)
        goes_on = record.state in (MigrationState.RUNNING, MigrationState.DONE)
        state = MigrationState.PAUSED if goes_on else record.state
        return await self._migrations.change(record, entry, state), record.state

    async def _demote(self, link: str, groups: Sequence[str]) -> None:
        """Raises the first refusal, when all are over."""
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(group: str) -> None:
            async with slots:
                await self._groups.demote(link, group)

        found = await asyncio.gather(*(one(group) for group in groups), return_exceptions=True)
        for outcome in found:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _as_before(
        self, before: tuple[MigrationRecord, MigrationState], application: str, by: str, reason: str
    ) -> None:
        record, state = before
        what = JournalEntry(self._records.now_ms(), NOT_UNDONE, application=application, by=by, detail=reason[:500])
        try:
            await self._migrations.change(record, what, state)
        except (ControlError, StoreError) as exc:
            _log.warning("migration stays paused", migration=record.name, reason=str(exc))
