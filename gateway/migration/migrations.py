"""Migrations as operations: a file is applied, shown, paused, aborted; the leader carries it out (`run.py`).

`CalledOff` is what came of calling promotes off that people or migrations had begun. A migration that would promote the
topics again is PAUSED first: what was called off comes back when somebody asks for it, and not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import structlog

from gateway.errors import BadRequest, Conflict, NotFound
from gateway.migration.rules.client_errors import ClientErrors
from gateway.migration.rules.file import FileError, MigrationFile, as_text, of_text, shared_name
from gateway.migration.rules.resolve import CUTOVERS, MigrationPlan, resolve
from gateway.migration.rules.undo import UndoStanding, standing
from gateway.migration.rules.world import World
from gateway.migration.world_reader import WorldReader
from gateway.operations.records import Records
from gateway.state.migration_records import JournalEntry, MigrationRecord, MigrationState
from gateway.state.records import MirrorRecord
from gateway.state.store import StoreConflict
from gateway.topics.mirrors import Mirrors, MirrorView

_ATTEMPTS: Final = 8
LIVE: Final = (MigrationState.RUNNING, MigrationState.PAUSED)
_NONE: Final[Mapping[str, int]] = MappingProxyType({})
FILE_BYTES: Final = 262_144
"""Of a file as it is kept: its record is written with each entry of the journal."""
MIGRATIONS: Final = 100
"""Of one fleet: each has a file and a journal in the state topic."""

Scores = Callable[[MigrationFile], Awaitable[Mapping[str, int]]]
"""The readiness of each application of a file."""


_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationView:
    """A migration as shown. `plan`: what is left, as of now. `failures`: what its steps last failed with, by step.
    `running`: steps that are under way. `undo`: by application, of those that can be taken back, or could.
    `client_errors`: among the answers to clients of what is promoted; None without the rule in its file, or while
    nobody was asked."""

    record: MigrationRecord
    file: MigrationFile
    plan: MigrationPlan
    failures: Mapping[str, str]
    running: Sequence[str]
    undo: Mapping[str, UndoStanding]
    client_errors: ClientErrors | None = None


class Migrations:
    """Apply, list, describe, pause, resume, abort, delete.

    `problems`: by migration that may go on, what only a person can mend, as of the last look (`run.py`); `failures`:
    why its steps were last refused; `running`: those that are under way.
    """

    def __init__(self, *, records: Records, world: WorldReader, scores: Scores) -> None:
        """`scores`: asked for applications that name a least readiness."""
        self._records = records
        self._store = records.store
        self._world = world
        self._scores = scores
        self.problems: dict[str, tuple[str, ...]] = {}
        self.failures: dict[str, dict[str, str]] = {}
        self.running: dict[str, set[str]] = {}

    async def apply(self, file: MigrationFile, by: str, *, validate_only: bool = False) -> MigrationView:
        """Make the file the one that counts for its migration, which goes on from wherever the world is.

        Args:
            by: who asks, for the journal.
            validate_only: nothing is stored; the view's plan is what would be done.

        Raises:
            NotFound: its link does not exist.
            BadRequest: the link of the migration is another one; or there are too many migrations.
            Conflict: another migration that is RUNNING or PAUSED means the same topic or group.
        """
        self._records.link(file.link)
        text, now = as_text(file), self._records.now_ms()
        if len(text) > FILE_BYTES:
            raise BadRequest(f"the migration file has {len(text)} bytes, {FILE_BYTES} at most: name topics by patterns")
        for _ in range(_ATTEMPTS):
            old = self._store.migrations.get(file.migration)
            new = self._applied(old, file, text, by, now)
            if validate_only or new == old:
                return await self._view(new, fresh=True)
            try:
                await (self._store.insert(new) if old is None else self._store.replace(old, new))
            except StoreConflict:
                continue
            self.failures.pop(file.migration, None)
            _log.info("migration applied", migration=file.migration, link=file.link, by=by)
            return await self._view(new, fresh=True)
        raise Conflict(f"migration '{file.migration}' is being changed by others; try again")

    def _applied(
        self, old: MigrationRecord | None, file: MigrationFile, text: str, by: str, now: int
    ) -> MigrationRecord:
        self._require_own(file)
        if old is not None and old.link != file.link:
            raise BadRequest(
                f"migration '{old.name}' is of link '{old.link}'; name this one otherwise, or delete the other"
            )
        if old is None and len(self._store.migrations) >= MIGRATIONS:
            raise BadRequest(f"there are {MIGRATIONS} migrations already: lockgate migration delete")
        if old is not None and old.file == text and old.state is MigrationState.RUNNING and not self.trouble(old):
            return old
        made = old or MigrationRecord(name=file.migration, link=file.link, file=text, created_ms=now)
        made = replace(made, link_id=self._records.link(file.link).link_id)
        running = replace(
            made, file=text, state=MigrationState.RUNNING, state_since_ms=now, applied_by=by, stopped_by=""
        )
        return running.noted(JournalEntry(now, "APPLIED", by=by, detail=f"{len(file.applications)} application(s)"))

    def _require_own(self, file: MigrationFile) -> None:
        """Raises Conflict: another migration that may go on means a name of this one."""
        link = self._records.link(file.link)
        for other in self._store.migrations.values():
            if other.name == file.migration or other.state not in LIVE or not other.is_of(link):
                continue
            try:
                shared = shared_name(file, of_text(other.file))
            except (FileError, ValueError):
                continue  # of a newer version, which this one does not carry out
            if shared:
                raise Conflict(
                    f"{shared} is of migration '{other.name}' ({other.state.value}) already: take it out of one of the "
                    f"files, or lockgate migration abort {other.name}"
                )

    def list(self) -> Sequence[MigrationRecord]:
        """All, by name."""
        return [self._store.migrations[name] for name in sorted(self._store.migrations)]

    def record(self, name: str) -> MigrationRecord:
        """One of them; NotFound if there is none."""
        found = self._store.migrations.get(name)
        if found is None:
            raise NotFound(f"there is no migration '{name}': lockgate migration apply FILE")
        return found

    async def describe(self, name: str) -> MigrationView:
        """One of them, with what is left; NotFound as `record`."""
        return await self._view(self.record(name))

    async def pause(self, name: str, by: str, *, validate_only: bool = False) -> MigrationView:
        """Take no further step until `resume`. What has begun comes to its end."""
        return await self._switch(name, MigrationState.PAUSED, by, (MigrationState.RUNNING,), validate_only)

    async def resume(self, name: str, by: str, *, validate_only: bool = False) -> MigrationView:
        """Go on."""
        return await self._switch(name, MigrationState.RUNNING, by, (MigrationState.PAUSED,), validate_only)

    async def abort(self, name: str, by: str, *, validate_only: bool = False) -> MigrationView:
        """Take no further step; only a new apply goes on. What is done stays as it is."""
        allowed = (MigrationState.RUNNING, MigrationState.PAUSED)
        return await self._switch(name, MigrationState.ABORTED, by, allowed, validate_only)

    async def delete(self, name: str, *, validate_only: bool = False) -> None:
        """Forget a migration with its journal; mirrors and groups stay as they are.

        Raises:
            NotFound: there is none. Conflict: it is RUNNING.
        """
        record = self.record(name)
        if record.state is MigrationState.RUNNING:
            raise Conflict(f"migration '{name}' is RUNNING: lockgate migration abort {name}")
        if not validate_only:
            await self._store.delete(record)
            self.failures.pop(name, None)
            _log.info("migration deleted", migration=name)

    async def _switch(
        self, name: str, state: MigrationState, by: str, allowed: Sequence[MigrationState], validate_only: bool
    ) -> MigrationView:
        record = self.record(name)
        if record.state not in allowed:
            raise Conflict(
                f"migration '{name}' is {record.state.value}, not {' or '.join(one.value for one in allowed)}"
            )
        now = self._records.now_ms()
        if validate_only:
            return await self._view(replace(record, state=state))
        entry = JournalEntry(now, "RESUMED" if state is MigrationState.RUNNING else state.value, by=by)
        return await self._view(await self.change(record, entry, state))

    async def change(
        self,
        record: MigrationRecord,
        entry: JournalEntry,
        state: MigrationState | None = None,
        rehearsed: Mapping[str, int] = _NONE,
        accepted: Mapping[str, int] = _NONE,
        stopped_by: str = "",
    ) -> MigrationRecord:
        """Note something in the journal, and perhaps go to another state, whatever else was noted meanwhile.

        `rehearsed`, `accepted`: see `MigrationRecord`; of one application, of one rule. `stopped_by`: the rule that
        has it go to that state.

        Raises:
            NotFound: it was deleted. Conflict: others change it again and again, or have changed its state.
        """
        for _ in range(_ATTEMPTS):
            old = self.record(record.name)
            if state is not None and old.state is not record.state:
                raise Conflict(f"migration '{record.name}' is {old.state.value} by now")
            new = replace(
                old.noted(entry),
                rehearsed={**old.rehearsed, **rehearsed},
                accepted={**old.accepted, **accepted},
            )
            if state is not None:
                new = replace(new, state=state, state_since_ms=entry.at_ms, stopped_by=stopped_by)
            try:
                await self._store.replace(old, new)
            except StoreConflict:
                continue
            return new
        raise Conflict(f"migration '{record.name}' is being changed by others; try again")

    def file_of(self, record: MigrationRecord) -> MigrationFile:
        """Its file. Raises Conflict: a newer version has written one that this one cannot read."""
        try:
            return of_text(record.file)
        except (FileError, ValueError) as exc:
            raise Conflict(f"migration '{record.name}': its file cannot be read by this version: {exc}") from exc

    def promoting(self, name: str) -> str:
        """The promote of topics that is under way for a migration, by its key in `running`; '' when none is."""
        prefixes = tuple(kind.value for kind in CUTOVERS)
        return min((key for key in self.running.get(name, ()) if key.startswith(prefixes)), default="")

    async def plan(self, file: MigrationFile, *, fresh: bool = False) -> MigrationPlan:
        """What is left of a file now."""
        return (await self.plan_and_world(file, fresh=fresh))[0]

    async def plan_of(self, record: MigrationRecord, *, fresh: bool = False) -> tuple[MigrationPlan, World]:
        """What is left of a migration now, for who acts on it. Conflict: as `file_of`, or it is of another link, or was
        when all had answered."""
        if trouble := self.trouble(record):
            raise Conflict(trouble)
        found = await self.plan_and_world(self.file_of(record), fresh=fresh)
        if trouble := self.trouble(record):
            raise Conflict(trouble)
        return found

    def trouble(self, record: MigrationRecord) -> str:
        """Of one whose link was deleted, and made anew with the same name: that may be another cluster."""
        link = self._store.links.get(record.link)
        if link is None or record.is_of(link):
            return ""
        return f"link '{record.link}' was made anew since the file was applied: lockgate migration apply FILE"

    async def plan_and_world(self, file: MigrationFile, *, fresh: bool = False) -> tuple[MigrationPlan, World]:
        """What is left of a file now, and the world that says so."""
        asks = any(one.options.min_readiness for one in file.applications)
        world = await self._world.read(file, await self._scores(file) if asks else {}, fresh=fresh)
        return await asyncio.to_thread(resolve, file, world), world  # a tenth of a second, of 20,000 topics

    async def _view(self, record: MigrationRecord, *, fresh: bool = False) -> MigrationView:
        file = self.file_of(record)
        plan, world = await self.plan_and_world(file, fresh=fresh)
        if trouble := self.trouble(record):
            plan = MigrationPlan(applications=(), problems=(trouble,))
        undo = ((one.application.name, standing(one, world)) for one in plan.applications)
        return MigrationView(
            record=record,
            file=file,
            plan=plan,
            undo={name: found for name, found in undo if found is not None},
            failures=dict(self.failures.get(record.name, {})),
            running=sorted(self.running.get(record.name, ())),
            client_errors=None if file.stop_when.client_errors_percent is None else world.client_errors,
        )


CALLED_OFF: Final = "PROMOTE_CALLED_OFF"


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledOff:
    """`mirrors`: all that go back. `paused`: migrations that were RUNNING, and would promote them again."""

    mirrors: Sequence[MirrorView]
    paused: Sequence[str]


class PromoteCallOffs:
    """Of all links. `claimed`: migrations that would promote a topic."""

    def __init__(
        self,
        *,
        records: Records,
        migrations: Migrations,
        mirrors: Mirrors,
        claimed: Callable[[MirrorRecord], Sequence[str]],
    ) -> None:
        self._records = records
        self._migrations = migrations
        self._mirrors = mirrors
        self._claimed = claimed

    async def call_off(self, link: str, topics: Sequence[str], by: str, *, validate_only: bool = False) -> CalledOff:
        """Call off the promotes of these topics, with all of their sets; returns when they are back.

        Args:
            by: who asks, for the journal.
            validate_only: nothing is changed; what would go back.

        Raises:
            BadRequest, NotFound, Conflict, TargetUnreachable: see `Mirrors.call_off`. One that has cut over behind the
                first look leaves its migration PAUSED.
        """
        going = await self._mirrors.call_off(link, topics, validate_only=True)
        forward = [view.record for view in going if not view.record.is_reverse]
        named = sorted({name for record in forward for name in self._claimed(record)})
        if validate_only:
            return CalledOff(mirrors=going, paused=named)
        names = tuple(view.record.mirror_topic for view in going)
        for name in named:
            entry = JournalEntry(self._records.now_ms(), CALLED_OFF, names=names, by=by)
            await self._migrations.change(self._migrations.record(name), entry, MigrationState.PAUSED)
        return CalledOff(mirrors=await self._mirrors.call_off(link, topics), paused=named)
