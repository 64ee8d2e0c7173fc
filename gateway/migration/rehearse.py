"""Rehearsals of a migration's promotes: asked for, or by the windows of the file while this gateway leads.

Applications go one after the other, so one write pause is over before the next begins. What came of it stands in the
journal; when the last one was begun stands in the record, so the next leader does not begin it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import structlog

from gateway.cutover.promote.rehearsal import Rehearsal
from gateway.cutover.rehearsals import Rehearsals
from gateway.errors import BadRequest, ControlError
from gateway.migration.migrations import Migrations
from gateway.migration.rules.rehearsals import due, to_rehearse
from gateway.operations.records import Records
from gateway.state.link_config import parse
from gateway.state.migration_records import JournalEntry, MigrationRecord, MigrationState
from gateway.state.store import ProducerFenced, StoreError
from gateway.topics.promote_plan import REFUSALS

LOOK_EVERY_S: Final = 5.0
REHEARSED: Final = "REHEARSED"
NOT_REHEARSED: Final = "REHEARSAL_GIVEN_UP"
_SCHEDULE: Final = "schedule"
_log = structlog.get_logger("lockgate.control")


class ApplicationRehearsed(NamedTuple):
    """`refused`: why nothing was begun, '' when it was."""

    application: str
    refused: str
    rehearsal: Rehearsal | None


class MigrationRehearsals:
    """Of all migrations."""

    def __init__(self, *, records: Records, migrations: Migrations, rehearsals: Rehearsals) -> None:
        self._records = records
        self._migrations = migrations
        self._rehearsals = rehearsals
        self._begun: dict[tuple[str, str], int] = {}

    async def rehearse(
        self, name: str, application: str, by: str, *, validate_only: bool = False
    ) -> Sequence[ApplicationRehearsed]:
        """Rehearse the promote of an application, or of each that is not promoted ('').

        Raises:
            NotFound: there is no such migration. BadRequest: the file has no such application.
        """
        record = self._migrations.record(name)
        plan, world = await self._migrations.plan_of(record)
        chosen = [one for one in plan.applications if application in ("", one.application.name)]
        if not chosen:
            raise BadRequest(f"migration '{name}' has no application '{application}'")
        done = []
        for one in chosen:
            topics, own = to_rehearse(one, world), one.application.name
            if topics:
                done.append(await self._one(record, own, topics, by, validate_only=validate_only))
            elif application:
                why = "it has no topic that is mirrored and not promoted, or not all of its mirrors are ACTIVE"
                done.append(ApplicationRehearsed(own, why, None))
        return done

    async def run_due(self) -> None:
        """Those whose window is open, of migrations that are RUNNING, one after the other."""
        there = self._records.store.migrations
        self._begun = {key: at for key, at in self._begun.items() if key[0] in there}
        for name in list(there):
            try:
                await self._look(name)
            except ProducerFenced:
                return
            except (*REFUSALS, StoreError) as exc:
                _log.warning("migration not rehearsed", migration=name, reason=str(exc))

    async def _look(self, name: str) -> None:
        """Each by what the record and the clock say right before it: the one before it has taken its time, in which its
        window may have closed, or somebody paused the migration."""
        while (found := await self._next(name)) is not None:
            record, application, topics = found
            self._begun[name, application] = self._records.now_ms()
            await self._one(record, application, topics, _SCHEDULE)

    async def _next(self, name: str) -> tuple[MigrationRecord, str, Sequence[str]] | None:
        """The first application of a migration whose rehearsal is due now; None: none is, or it is not RUNNING."""
        record = self._records.store.migrations.get(name)
        if record is None or record.state is not MigrationState.RUNNING or self._migrations.promoting(name):
            return None
        file = self._migrations.file_of(record)
        if not any(one.rehearsals for one in file.applications):
            return None
        plan, world = await self._migrations.plan_of(record)
        if self._records.store.migrations.get(name) is not record:
            return None  # it was changed while the source was asked: the next look goes by that
        begun = dict(record.rehearsed)
        for (migration, application), at in self._begun.items():  # also what the journal could not be told of
            if migration == name:
                begun[application] = max(at, begun.get(application, 0))
        return next(((record, one.application.name, topics) for one, topics in due(plan, world, begun)), None)

    async def _one(
        self, record: MigrationRecord, application: str, topics: Sequence[str], by: str, *, validate_only: bool = False
    ) -> ApplicationRehearsed:
        config = parse(self._records.link(record.link).configs)
        names = [config.mirror_topic(topic) for topic in topics]
        if validate_only:
            try:
                await self._rehearsals.check(record.link, names)
            except REFUSALS as exc:
                return ApplicationRehearsed(application, str(exc), None)
            return ApplicationRehearsed(application, "", None)
        begun_ms = self._records.now_ms()
        try:
            rehearsal = await self._rehearsals.rehearse(record.link, names)
        except REFUSALS as exc:
            done = ApplicationRehearsed(application, str(exc), None)
        else:
            done = ApplicationRehearsed(application, "", rehearsal)
        await self._note(record, done, topics, by, begun_ms)
        return done

    async def _note(
        self, record: MigrationRecord, done: ApplicationRehearsed, topics: Sequence[str], by: str, begun_ms: int
    ) -> None:
        pause = None if done.rehearsal is None else done.rehearsal.pause
        given_up = done.refused or (done.rehearsal.given_up if done.rehearsal is not None else "")
        entry = JournalEntry(
            at_ms=self._records.now_ms(),
            what=NOT_REHEARSED if given_up else REHEARSED,
            application=done.application,
            names=tuple(topics),
            by=by,
            detail=(given_up or _told(done.rehearsal))[:500],
            pause_ms=-1 if pause is None else round(pause.paused_s * 1000),
        )
        try:
            await self._migrations.change(record, entry, rehearsed={done.application: begun_ms})
        except (ControlError, StoreError) as exc:
            _log.warning("migration journal not written", migration=record.name, reason=str(exc))


def _told(rehearsal: Rehearsal | None) -> str:
    """The longest stall, in one line."""
    pause = None if rehearsal is None else rehearsal.pause
    if pause is None or not pause.stalls:
        return "no client waited"
    longest = pause.stalls[0]
    more = f", {pause.clients - 1} more waited" if pause.clients > 1 else ""
    return f"longest stall {longest.seconds * 1000:.0f} ms: {longest.client_id or '?'} at {longest.address}{more}"
