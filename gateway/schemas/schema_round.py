"""One round of schema sync of one link: both registries are looked at, and what the target lacks is registered there.

What is to be done is decided in `rules/plan.py`. Here it is carried out, one request after the other, and what came of
each is stored before the next: a round that breaks off anywhere is gone on with by the next one, of whoever leads then.
A round makes `IN_A_ROUND` changes at the most; the rest follows at once, in rounds of their own.

Whether a registry takes ids from outside is not known before it has done so: some have no modes, some say IMPORT and
give ids of their own all the same. So the answer to each import is compared, and one that is wrong is taken back.

A subject is looked at again right before each change of it that somebody else's version would be harmed by: what is not
as it was when the round was decided is left alone for the rest of the round, and decided anew (`rules/as_seen.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from gateway.errors import Conflict
from gateway.operations.cluster_errors import target_errors
from gateway.operations.door import Door
from gateway.operations.link_tasks import TaskErrorCode
from gateway.operations.rules.refusals import Refusals
from gateway.schemas.look import RegistriesView, RegistryQuery, RegistryReader
from gateway.schemas.registry import Registry, RegistryRefused, task_code
from gateway.schemas.rules.model import IMPORT, READONLY, Schema, VersionKey
from gateway.schemas.rules.plan import plan, why_not_as_seen, why_not_imported
from gateway.schemas.rules.remember import after, at_promote, before, of_link, references_on_target, with_entries
from gateway.schemas.rules.scene import Change, ChangeKind, SchemaRoundPlan, remembered
from gateway.state.link_config import SCHEMA_IDS, parse
from gateway.state.records import LinkRecord
from gateway.state.schemas.schema_options import SchemaIds
from gateway.state.schemas.schema_records import SchemaEntry, SchemaRecord
from gateway.state.store import StateStore, StoreConflict

IN_A_ROUND: Final = 500
STORED_TOGETHER: Final = 50
"""Changes whose outcomes are stored in one write. What is lost of them is seen on the target by the next look."""

SHOWN_TRIES: Final = 20
SHOWN_AFTER_S: Final = 0.1
"""A registry of several nodes may answer from one that has not read yet what another one has written."""

_REMEDY: Final = f"set {SCHEMA_IDS}=translate"


class NotAsSeen(RegistryRefused):
    """Somebody else has changed a subject since the round was decided. Nothing of it is changed; the next one looks."""


class SchemaError(NamedTuple):
    """A change that the target refused. `at_ms`: wall clock, when last."""

    change: Change
    code: TaskErrorCode
    message: str
    at_ms: int


@dataclass(slots=True)
class SchemaMemory:
    """What the leader knows of a link beside what is stored. Times: monotonic seconds.

    `refused`: changes that the target refused. `keeps_no_ids`: why nothing is imported any more, while the link is as
    it was then. `registered`, `deleted`, `levels`: changes since this gateway leads.
    """

    refused: Refusals[VersionKey, SchemaError] = field(default_factory=Refusals)
    keeps_no_ids: tuple[LinkRecord, str] | None = None
    registered: int = 0
    deleted: int = 0
    levels: int = 0

    def due(self, changes: Sequence[Change], now: float) -> list[Change]:
        """Those that are to be asked for now."""
        return [change for change in changes if self.refused.are_due(change.key, now)]

    def errors(self) -> list[SchemaError]:
        """The youngest ones, by subject and version."""
        return sorted(self.refused.youngest(), key=lambda error: error.change.key)


@dataclass(frozen=True, slots=True)
class SchemaOutlook:
    """What was seen, and what is to be done about it."""

    seen: RegistriesView
    plan: SchemaRoundPlan


class SchemaRound:
    """Of one link, as its record stands, with both registries open.

    Attributes:
        missing: versions that the round was to register on the target, and has not yet.
    """

    def __init__(
        self,
        link: LinkRecord,
        memory: SchemaMemory,
        source: Registry,
        target: Registry,
        *,
        store: StateStore,
        door: Door,
        clock: Callable[[], float],
        now_ms: Callable[[], int],
        go_on: Callable[[], None] = lambda: None,
    ) -> None:
        """`clock`: monotonic seconds. `go_on`: called between requests; raises to break the round off."""
        self._link = link
        self._config = parse(link.configs)
        self._memory = memory
        self._source = source
        self._target = target
        self._store = store
        self._door = door
        self._clock = clock
        self._now_ms = now_ms
        self._go_on = go_on
        self._pending: dict[str, SchemaRecord] = {}
        self._unstored = 0
        self._own: frozenset[str] = frozenset()
        self._left_alone: set[str] = set()
        self.missing: set[VersionKey] = set()

    async def look(self, asked: RegistryQuery) -> SchemaOutlook:
        """Nothing is changed. Raises as `RegistryReader.take`, and Conflict when the target cannot do what the link
        asks for."""
        if self._config.schema_ids is SchemaIds.FIXED:
            await self._require_modes()
        seen = await RegistryReader(self._source, self._target, self.records(), asked, self._go_on).take()
        found = await asyncio.to_thread(plan, seen.scene)  # a quarter of a second, of tens of thousands of subjects
        return SchemaOutlook(seen, replace(found, left_out=tuple(sorted([*found.left_out, *seen.notes]))))

    async def _require_modes(self) -> None:
        known = self._memory.keeps_no_ids
        if known is not None and known[0] == self._link:
            raise Conflict(known[1])
        mode = await self._target.mode()
        if not mode:
            raise Conflict(
                f"the target registry {self._target.url} has no modes, so it takes no ids from outside; {_REMEDY}"
            )
        if mode in READONLY:
            raise Conflict(f"the target registry {self._target.url} is {mode}; set its mode to READWRITE")

    async def known(self, ids: Iterable[int]) -> tuple[frozenset[int], Mapping[int, bool]]:
        """Which of these ids the target knows; of each other one, whether the source does. Raises RegistryError."""
        known, of_source = set(), {}
        for schema_id in ids:
            if await self._target.schema(schema_id) is not None:
                known.add(schema_id)
            else:
                of_source[schema_id] = await self._source.schema(schema_id) is not None
        return frozenset(known), of_source

    async def carry_out(self, looked: SchemaOutlook) -> int:
        """Make the changes. Returns how many are left for the next round.

        Raises:
            RegistryError: a registry does not answer; the rest is left undone.
            Conflict: the target does not keep ids; nothing of it stays.
            StoreError: it could not be stored, or the link was changed meanwhile.
        """
        self._own = looked.plan.own
        self._left_alone.clear()
        self.missing = {change.key for change in looked.plan.changes if change.kind is ChangeKind.REGISTER}
        try:
            for name, entries in looked.plan.present.items():
                await self._note(with_entries(self._record(name), entries))
            self._memory.refused.only({change.key for change in looked.plan.changes})
            due = self._memory.due(looked.plan.changes, self._clock())
            with target_errors(), self._door.permit(self._link):
                for change in due[:IN_A_ROUND]:
                    self._go_on()
                    await self._change(change, looked)
        finally:
            await self._store_pending()
        return max(0, len(due) - IN_A_ROUND)

    async def _change(self, change: Change, looked: SchemaOutlook) -> None:
        if change.subject in self._left_alone:
            return
        claim = before(change, self._record(change.subject))
        if claim != self.records().get(change.subject):
            self._pending[change.subject] = claim
            await self._store_pending()
        try:
            entry = await self._asked(change, looked)
        except RegistryRefused as exc:
            if isinstance(exc, NotAsSeen):
                self._left_alone.add(change.subject)
            error = SchemaError(change, task_code(exc), str(exc), self._now_ms())
            self._memory.refused.add(change.key, error, self._clock(), self._config.schema_sync_ms / 1000)
            return
        self._memory.refused.forgive(change.key)
        if entry is not None:
            self.missing.discard(change.key)
        await self._note(after(change, self._record(change.subject), entry))

    async def _asked(self, change: Change, looked: SchemaOutlook) -> SchemaEntry | None:
        match change.kind:
            case ChangeKind.MODE:
                await self._set_mode(change, looked)
            case ChangeKind.LEVEL:
                if not self._record(change.subject).entries:  # somebody else's by now, maybe
                    there = await self._target.numbers(change.subject, deleted=True)
                    if why := why_not_as_seen(there, self._known(change.subject, looked)):
                        await self._give_back(change.subject)
                        raise self._not_as_seen(change.subject, why)
                await self._target.set_level(change.subject, change.value)
                self._memory.levels += 1
            case ChangeKind.DELETE:
                await self._delete(change)
            case ChangeKind.REGISTER:
                schema = looked.seen.scene.source[change.subject].versions[change.version].schema
                entry = await self._register(change, schema, looked)
                self._memory.registered += 1
                return entry
        return None

    async def _set_mode(self, change: Change, looked: SchemaOutlook) -> None:
        """IMPORT is a lock: behind it nobody else registers, so what came before it is seen there, and decides."""
        name = change.subject
        try:
            await self._target.set_mode(name, change.value, force=change.force)
        except RegistryRefused as exc:
            why = why_not_as_seen(await self._target.numbers(name, deleted=True), self._known(name, looked))
            if why and change.value == IMPORT:
                await self._give_back(name)
                raise self._not_as_seen(name, why) from exc
            raise
        if change.value == IMPORT:
            await self._require_locked(name, looked)

    async def _require_locked(self, name: str, looked: SchemaOutlook) -> None:
        mode = await self._target.mode(name)
        for _ in range(SHOWN_TRIES):
            if mode == IMPORT:
                break
            await asyncio.sleep(SHOWN_AFTER_S)
            mode = await self._target.mode(name)
        there, record = await self._target.numbers(name, deleted=True), self._record(name)
        why = why_not_imported(mode, there, self._known(name, looked))
        if not why:
            why = await self._why_not_revived(looked, name, there)
        if why and mode == IMPORT:
            await self._target.set_mode(name, looked.seen.scene.of_target(name).mode)
            await self._give_back(name)
        elif why and there and not record.entries:  # it may be IMPORT yet, so that is remembered
            await self._note(replace(record, own=True))
        if why:
            raise self._not_as_seen(name, why)

    async def _why_not_revived(self, looked: SchemaOutlook, name: str, there: Collection[int]) -> str:
        """Of the versions that are to be live again under their numbers: whether they still are the very ones."""
        for number in sorted(number for number in there if VersionKey(name, number) in self.missing):
            found = await self._target.version(name, number)
            if found is None or found.id != looked.seen.scene.source[name].versions[number].id:
                return f"version {number} of it is another one since it was looked at"
        return ""

    async def _give_back(self, name: str) -> None:
        """The link has not set the mode of a subject, or not any more; one without versions of its own is not its."""
        record = self._record(name)
        if record.entries:
            await self._note(replace(record, imports=False))
        else:
            await self._forget(name)

    def _known(self, name: str, looked: SchemaOutlook) -> frozenset[int]:
        """Numbers of versions that the round was decided from, and of those that it has registered since."""
        own = {entry.target_version for entry in self._record(name).entries}
        return looked.seen.scene.of_target(name).numbers | own

    def _not_as_seen(self, name: str, why: str) -> NotAsSeen:
        return NotAsSeen(f"the target registry {self._target.url}: '{name}': {why}", self._target.side, 409, 0)

    async def _delete(self, change: Change) -> None:
        """Only the very version that the link knows: numbers may be given again after a delete for good."""
        entry = remembered(self._record(change.subject)).get(change.version)
        if entry is None or entry.target_version not in await self._target.numbers(change.subject, deleted=False):
            return
        found = await self._target.version(change.subject, entry.target_version)
        if found is not None and found.id == entry.target_id:
            await self._target.delete(change.subject, entry.target_version)
            self._memory.deleted += 1

    async def _register(self, change: Change, schema: Schema, looked: SchemaOutlook) -> SchemaEntry | None:
        """None when something that it names was refused before it: it comes after that."""
        normalize = self._config.schema_normalize
        try:
            body = schema.body(references_on_target(schema.references, self.records()))
        except KeyError:
            return None
        if self._config.schema_ids is SchemaIds.FIXED:
            mode = await self._target.mode(change.subject)
            there = await self._target.numbers(change.subject, deleted=True)
            if why := why_not_imported(mode, there, self._known(change.subject, looked)):
                raise self._not_as_seen(change.subject, why)
            given = await self._target.register(
                change.subject, body, schema_id=change.id, number=change.version, normalize=normalize
            )
            found = await self._target.version(change.subject, change.version)
            if given != change.id or found is None or found.id != given:
                await self._take_back(change, body, given, there)
            return SchemaEntry(change.version, change.id, change.version, given)
        given = await self._target.register(
            change.subject, body, schema_id=None, number=change.version, normalize=normalize
        )
        found = await self._target.lookup(change.subject, body, normalize=normalize)
        if found is None or found.id != given:
            words = f"the target registry {self._target.url} does not know what it has registered: '{change.subject}'"
            raise RegistryRefused(words, self._target.side, 200, 0)
        is_own = found.version in looked.seen.scene.of_target(change.subject).numbers  # no version came of it
        return SchemaEntry(change.version, change.id, found.version, given, is_own)

    async def _take_back(self, change: Change, body: dict[str, object], given: int, there: Collection[int]) -> None:
        """The target has given an id, or a number, of its own: so it would with every other one. Raises Conflict.

        Args:
            there: numbers of versions that the target had right before.
        """
        found = await self._target.lookup(change.subject, body, normalize=self._config.schema_normalize)
        known = {entry.target_version for entry in self._record(change.subject).entries}
        if found is not None and found.version not in {*there, *known}:
            await self._target.delete(change.subject, found.version)
            await self._target.delete(change.subject, found.version, permanent=True)
        await self._target.set_mode(change.subject, "")
        if not self._record(change.subject).entries:
            await self._forget(change.subject)
        what = "ids" if given != change.id else "the numbers of versions"
        why = (
            f"the target registry {self._target.url} says {IMPORT}, and gave id {given} to version {change.version} of "
            f"'{change.subject}', which has id {change.id} on the source: it does not keep {what}; {_REMEDY}"
        )
        self._memory.keeps_no_ids = (self._link, why)
        raise Conflict(why)

    async def promote(self, looked: SchemaOutlook) -> int:
        """Hand the subjects to the target's clients: their modes are set, and the source is not followed any more.

        Returns how many. Raises as `carry_out`, and RegistryRefused.
        """
        try:
            with target_errors(), self._door.permit(self._link):
                for change in at_promote(looked.seen.scene.source, self.records()):
                    await self._target.set_mode(change.subject, change.value)
                    await self._note(replace(self._record(change.subject), promoted=True, imports=False))
            for record in list(self.records().values()):
                await self._note(replace(record, promoted=True))
        finally:
            await self._store_pending()
        return len(self.records())

    # -- what is stored ---------------------------------------------------------------------------------------------

    def records(self) -> Mapping[str, SchemaRecord]:
        """Of this link, by subject."""
        return {**self._stored(), **self._pending}

    def _stored(self) -> Mapping[str, SchemaRecord]:
        return of_link(self._store.schemas.get(self._link.name, {}), self._link.link_id)

    def _record(self, subject: str) -> SchemaRecord:
        found = self._pending.get(subject) or self._stored().get(subject)
        link = self._link
        own = subject in self._own
        return found or SchemaRecord(link=link.name, link_id=link.link_id, subject=subject, own=own)

    async def _note(self, new: SchemaRecord) -> None:
        self._pending[new.subject] = new
        self._unstored += 1
        if self._unstored >= STORED_TOGETHER:
            await self._store_pending()

    async def _store_pending(self) -> None:
        stored = self._stored()
        changes = {name: record for name, record in self._pending.items() if stored.get(name) != record}
        await self._write(changes)
        self._pending, self._unstored = {}, 0

    async def _forget(self, subject: str) -> None:
        self._pending.pop(subject, None)
        await self._write({subject: None} if subject in self._stored() else {})

    async def _write(self, changes: Mapping[str, SchemaRecord | None]) -> None:
        name, before_it = self._link.name, dict(self._store.schemas.get(self._link.name, {}))

        def unchanged() -> None:
            if self._store.links.get(name) != self._link:
                raise StoreConflict(f"link '{name}' was changed by another operation meanwhile")
            now = self._store.schemas.get(name, {})
            if any(now.get(subject) != before_it.get(subject) for subject in changes):
                raise StoreConflict(f"the schemas of link '{name}' were changed by another operation meanwhile")

        if changes:
            await self._store.write([(f"schema/{name}/{subject}", new) for subject, new in changes.items()], unchanged)
