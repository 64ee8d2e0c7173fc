"""What is to be done so that the target's registry has the source's schemas: changes, in the order in which they go.

A snapshot of both registries goes in, and what the link remembers; changes come out, none of which is needed twice: a
round that breaks off anywhere is gone on with by looking again. Theory:

* **Ids fixed** (`schema.ids=fixed`). A registry takes ids from outside in mode IMPORT only, and there it checks
  nothing: a version that is there already is *overwritten*. So a subject is imported into only while all that the
  target has of it is what the source has: the same versions, ids and schemas. Else all of it is left out, with the
  reason. That is asked again behind the mode (`why_not_as_seen`). An id means one schema in all of a registry; one that
  is taken by another schema is left out, too.
* **Ids translated.** The target gives ids, and gives the same one for the same schema however often it is asked. So
  nothing is compared: versions are registered in their order, and what comes back is the id map. Compatibility was
  checked when they came to the source, under levels of then; so the link's own subjects have NONE meanwhile.
* **References first.** A version may name versions of other subjects, which must be there before. They come along
  though the filters leave their subjects out.
* **Deletes.** A version that is soft-deleted on the source is registered all the same, since records may name its
  id, and soft-deleted behind that. What the source has no more at all stays: an empty registry must not empty the
  other one. One that is live on the source and soft-deleted on the target is no copy: readers find its id, whoever
  looks for its schema does not find it. It is registered again until it is live: imported under its number; or, where
  ids are translated, the registry gives it a new number and the same id. A number that was deleted for good may be
  given again, to another schema: so a version is remembered under number and id, and holds while both say the same.
* **What the target has of its own** is never deleted, and the level of its subject is left alone. What comes back under
  another number than the link has registered somebody else has registered.
* **Modes** of subjects wait for the promote of the registry: until then IMPORT keeps clients from registering on both.

Before each change it is asked whether the subject still is what the change was decided from: no registry compares and
sets. What there is instead, by the rules of Confluent's:

* In mode IMPORT a subject takes no registration without an id, so none of a client; in any other mode none with one.
  The registry orders both kinds: what a client has registered before the mode was set, whoever sees the mode sees, too.
  So behind a mode that is *read back* as IMPORT the versions that are there are all that clients have registered.
* A soft delete of the last active version takes the subject's mode away. So the mode is read before each registration.
* IMPORT with `force`, which a subject with versions needs, asks for nothing; without it a subject that has got active
  versions meanwhile is refused.
* A registration in IMPORT overwrites a version of its number, whatever it is; an id that means another schema is
  refused.

What is left is another importer, which registers with ids as well. It is seen between two registrations, not within
one: there is one importer of a subject, as a rule for operators (docs/guides/schemas.md).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gateway.schemas.rules.model import ABSENT, IMPORT, READONLY, Schema, Subject, Version, VersionKey, is_of_context
from gateway.schemas.rules.scene import (
    Change,
    ChangeKind,
    LeftOutSchema,
    SchemaPlanInput,
    SchemaReason,
    SchemaRoundPlan,
    known_entries,
    numbers_by_subject,
    remembered,
    wanted_versions,
)
from gateway.state.schemas.schema_options import SchemaIds
from gateway.state.schemas.schema_records import SchemaEntry, SchemaRecord

NO_CHECKS: Final = "NONE"
"""The compatibility level that takes every schema."""


def references_to_read(
    source: Mapping[str, Subject], records: Mapping[str, SchemaRecord], ids: SchemaIds = SchemaIds.FIXED
) -> set[VersionKey]:
    """Versions that others name, and that are neither read nor remembered."""
    named = {
        VersionKey(reference.subject, reference.version)
        for subject in source.values()
        for version in subject.versions.values()
        for reference in version.schema.references
    }
    return {
        key
        for key in named
        if key.version not in source.get(key.subject, ABSENT).versions
        and key.version not in known_entries(records.get(key.subject), ids)
    }


def plan(scene: SchemaPlanInput) -> SchemaRoundPlan:
    """The changes that are left to be made."""
    return _Planner(scene).made()


class _Planner:
    """`new`: versions to register. `why`: of those that are not."""

    def __init__(self, scene: SchemaPlanInput) -> None:
        self._scene = scene
        self._asked = numbers_by_subject(scene.asked)
        self._new: dict[VersionKey, Version] = {}
        self._why: dict[VersionKey, LeftOutSchema] = {}
        self._notes: list[LeftOutSchema] = []
        self._present: dict[str, tuple[SchemaEntry, ...]] = {}
        self._kept = 0
        entries = (entry for name in scene.records for entry in self._known(name).values())
        self._imported = {entry.id for entry in entries if entry.id == entry.target_id}

    def made(self) -> SchemaRoundPlan:
        scene = self._scene
        for name in sorted(scene.source):
            self._subject(name, scene.source[name])
        self._leave_out_dependents()
        order = self._order()
        changes = [*self._registrations(order), *self._levels(order), *self._deletions(order)]
        left_out = sorted([*self._why.values(), *self._notes])
        own = frozenset(name for name in scene.source if scene.record(name) is None and self._is_own(name))
        return SchemaRoundPlan(tuple(changes), self._present, tuple(left_out), self._kept, own)

    # -- what is to be registered -----------------------------------------------------------------------------------

    def _subject(self, name: str, subject: Subject) -> None:
        scene, record = self._scene, self._scene.record(name)
        known = self._known(name)
        hidden = self._hidden(name, known)
        self._kept += len(known) - len(hidden)
        for number in sorted(set(known) - subject.numbers if subject.numbers or not known else {0}):
            self._note(name, number, SchemaReason.GONE_ON_SOURCE, "the source has it no more; it stays on the target")
        wanted = wanted_versions(subject, scene.options, self._asked.get(name, ())) | set(subject.versions)
        missing = wanted - (known.keys() - hidden)
        new = {number: subject.versions[number] for number in sorted(missing) if number in subject.versions}
        if record is not None and record.promoted:
            for number in new:
                self._note(
                    name, number, SchemaReason.AFTER_PROMOTE, "it came to the source after the promote of the subject"
                )
            return
        if subject.mode in READONLY:
            self._note(
                name, 0, SchemaReason.UNTIL_PROMOTED, f"its mode {subject.mode} is set when the schemas are promoted"
            )
        self._seen_otherwise(name, known)
        if scene.options.ids is SchemaIds.FIXED:
            self._fixed(name, new, subject.numbers | set(known))
        else:
            self._translated(name, new)

    def _known(self, name: str) -> dict[int, SchemaEntry]:
        """What is remembered, without what somebody has deleted on either registry for good, and made anew."""
        there, source = self._scene.target.get(name), self._scene.source.get(name, ABSENT)
        return {
            number: entry
            for number, entry in known_entries(self._scene.record(name), self._scene.options.ids).items()
            if _may_be(source, number, entry.id)
            and (
                there is None
                or (entry.target_version in there.numbers and _may_be(there, entry.target_version, entry.target_id))
            )
        }

    def _hidden(self, name: str, known: Mapping[int, SchemaEntry]) -> set[int]:
        """Versions of these that are live on the source and soft-deleted on the target, which is not its own affair."""
        record, there = self._scene.record(name), self._scene.target.get(name)
        if record is None or record.promoted:
            return set()
        active = self._scene.source[name].active
        deleted = {number for number, entry in known.items() if _is_deleted_there(entry, there)}
        return deleted & active

    def _seen_otherwise(self, name: str, known: Mapping[int, SchemaEntry]) -> None:
        """Of these the target says that they are soft-deleted, or that they are not, and the record does not yet."""
        there = self._scene.target.get(name)
        told = {number: replace(entry, deleted=_is_deleted_there(entry, there)) for number, entry in known.items()}
        self._present_there(name, [entry for number, entry in told.items() if entry != known[number]])

    def _fixed(self, name: str, new: Mapping[int, Version], of_source: Collection[int]) -> None:
        there, is_own = self._scene.of_target(name), self._scene.record(name) is None
        active = self._scene.source[name].active
        present, differs = [], ""
        for number, version in new.items():
            found = there.versions.get(number)
            if found is None:
                self._new[VersionKey(name, number)] = version
            elif found.id == version.id and found.schema.digest == version.schema.digest:
                if number in active and number not in there.active:
                    self._new[VersionKey(name, number)] = version
                    continue
                present.append(SchemaEntry(number, version.id, number, found.id, is_own, number not in there.active))
            else:
                differs = f"version {number} has id {found.id} there, and {version.id} on the source, or another schema"
        self._present_there(name, present)
        strange = sorted(there.numbers - set(of_source))
        if differs or strange:
            reason = SchemaReason.VERSION_DIFFERS if differs else SchemaReason.SUBJECT_DIFFERS
            detail = differs or f"the target has version {strange[0]}, and the source has none of that number"
            for number in new:
                if VersionKey(name, number) in self._new or differs:
                    self._leave_out(VersionKey(name, number), reason, detail)
        self._leave_out_taken(name, new)
        self._leave_out_read_only(name, new)

    def _leave_out_read_only(self, name: str, new: Mapping[int, Version]) -> None:
        """Unless the source has that mode, too: then it comes back at the promote."""
        mode = self._scene.of_target(name).mode
        if mode not in READONLY or mode == self._scene.source[name].mode:
            return
        detail = f"its mode on the target is {mode}, which somebody else has set: take it away there"
        for key in (VersionKey(name, number) for number in new):
            if key in self._new:
                self._leave_out(key, SchemaReason.TARGET_READONLY, detail)

    def _leave_out_taken(self, name: str, new: Mapping[int, Version]) -> None:
        """What the link has imported under an id is the schema that has it, however the target writes that."""
        for number, version in new.items():
            key = VersionKey(name, number)
            taken = "" if version.id in self._imported else self._scene.taken.get(version.id, "")
            if key in self._new and taken and taken != version.schema.digest:
                self._leave_out(key, SchemaReason.ID_TAKEN, f"the target has another schema under id {version.id}")

    def _translated(self, name: str, new: Mapping[int, Version]) -> None:
        there, record = self._scene.of_target(name), self._scene.record(name)
        active, before = self._scene.source[name].active, remembered(record)
        live_last = sorted(there.versions.values(), key=lambda found: (found.version in there.active, found.version))
        by_digest = {found.schema.digest: found for found in live_last}
        present = []
        for number, version in new.items():
            found = by_digest.get(version.schema.digest)
            is_deleted = found is not None and found.version not in there.active
            if found is None or (is_deleted and number in active):
                self._new[VersionKey(name, number)] = version
                continue
            is_own = record is None or number in before
            present.append(SchemaEntry(number, version.id, found.version, found.id, is_own, is_deleted))
        self._present_there(name, present)

    def _present_there(self, name: str, present: Sequence[SchemaEntry]) -> None:
        """To be noted, in the place of what was said of the same versions."""
        if present:
            told = {entry.version: entry for entry in [*self._present.get(name, ()), *present]}
            self._present[name] = tuple(told.values())

    def _leave_out(self, key: VersionKey, reason: SchemaReason, detail: str) -> None:
        self._new.pop(key, None)
        self._why.setdefault(key, LeftOutSchema(key.subject, key.version, reason, detail))

    def _note(self, subject: str, version: int, reason: SchemaReason, detail: str) -> None:
        self._notes.append(LeftOutSchema(subject, version, reason, detail))

    # -- in which order ---------------------------------------------------------------------------------------------

    def _leave_out_dependents(self) -> None:
        """Without what it names nothing can be registered."""
        there, naming = self._there(), dict[VersionKey, list[VersionKey]]()
        for key, version in self._new.items():
            for reference in version.schema.references:
                naming.setdefault(VersionKey(reference.subject, reference.version), []).append(key)
        left: Collection[VersionKey] = list(self._new)
        while left:
            bad = {
                key: found
                for key in left
                if key in self._new and (found := self._missing(self._new[key].schema, there))
            }
            for key, (reason, detail) in bad.items():
                self._leave_out(key, reason, detail)
            left = dict.fromkeys(other for key in bad for other in naming.get(key, ()))

    def _there(self) -> set[VersionKey]:
        noted = {VersionKey(name, number) for name in self._scene.records for number in self._known(name)}
        return noted | {VersionKey(name, one.version) for name, entries in self._present.items() for one in entries}

    def _missing(self, schema: Schema, there: Collection[VersionKey]) -> tuple[SchemaReason, str] | None:
        for reference in schema.references:
            key = VersionKey(reference.subject, reference.version)
            if key in there or key in self._new:
                continue
            words = f"it names version {key.version} of '{key.subject}'"
            if key in self._why:
                return SchemaReason.REFERENCE_LEFT_OUT, f"{words}, which is left out"
            where = "is in another context" if is_of_context(key.subject) else "the source does not have"
            return SchemaReason.REFERENCE_MISSING, f"{words}, which {where}"
        return None

    def _order(self) -> list[VersionKey]:
        """References before what names them, versions of a subject in their order; else by id, as they came."""
        behind: dict[VersionKey, list[VersionKey]] = defaultdict(list)
        open_: dict[VersionKey, int] = {}
        for key, before in self._before():
            behind[before].append(key)
            open_[key] = open_.get(key, 0) + 1
        ready = [(version.id, key) for key, version in self._new.items() if key not in open_]
        heapq.heapify(ready)
        order: list[VersionKey] = []
        while ready:
            _, key = heapq.heappop(ready)
            order.append(key)
            for other in behind[key]:
                open_[other] -= 1
                if not open_[other]:
                    heapq.heappush(ready, (self._new[other].id, other))
        for key in sorted(set(self._new) - set(order)):
            self._leave_out(
                key, SchemaReason.REFERENCE_CYCLE, "it names itself, over others or through an earlier version"
            )
        return order

    def _before(self) -> Iterable[tuple[VersionKey, VersionKey]]:
        last: dict[str, VersionKey] = {}
        for key in sorted(self._new):
            if key.subject in last:
                yield key, last[key.subject]
            last[key.subject] = key
            for name in {VersionKey(one.subject, one.version) for one in self._new[key].schema.references}:
                if name in self._new:
                    yield key, name

    # -- changes ----------------------------------------------------------------------------------------------------

    def _registrations(self, order: Sequence[VersionKey]) -> Iterable[Change]:
        begun: set[str] = set()
        for key in order:
            if key.subject not in begun:
                begun.add(key.subject)
                yield from self._before_registering(key.subject)
            yield Change(ChangeKind.REGISTER, key.subject, key.version, self._new[key].id)

    def _before_registering(self, name: str) -> Iterable[Change]:
        there = self._scene.of_target(name)
        if self._scene.options.ids is SchemaIds.FIXED:
            if there.mode != IMPORT:
                yield Change(ChangeKind.MODE, name, value=IMPORT, force=bool(there.numbers))
            return
        record = self._scene.record(name)
        if record is not None and record.imports:  # ids were fixed until now
            yield Change(ChangeKind.MODE, name)
        if not self._is_own(name) and (there.level or self._scene.target_level) != NO_CHECKS:
            yield Change(ChangeKind.LEVEL, name, value=NO_CHECKS)

    def _is_own(self, name: str) -> bool:
        """The target had it before the link came to it."""
        record = self._scene.record(name)
        return bool(self._scene.of_target(name).numbers) if record is None else record.own

    def _levels(self, order: Sequence[VersionKey]) -> Iterable[Change]:
        scene, registered = self._scene, {key.subject for key in order}
        for name, subject in sorted(scene.source.items()):
            there, record = scene.of_target(name), scene.record(name)
            made = name in registered or (record is not None and not record.promoted)
            if subject.level is None or not made or self._is_own(name):
                continue
            relaxed = name in registered and scene.options.ids is SchemaIds.TRANSLATE
            now = NO_CHECKS if relaxed else there.level or scene.target_level
            set_by_link = relaxed or (record is not None and bool(record.level) and record.level == there.level)
            if subject.level and subject.level != now:
                yield Change(ChangeKind.LEVEL, name, value=subject.level)
            elif not subject.level and set_by_link:
                yield Change(ChangeKind.LEVEL, name)

    def _deletions(self, order: Sequence[VersionKey]) -> Iterable[Change]:
        """What names others goes before them."""
        scene = self._scene
        registered = [key for key in reversed(order) if self._is_deleted(key)]
        yield from (Change(ChangeKind.DELETE, key.subject, key.version, self._new[key].id) for key in registered)
        for name in sorted(scene.source):
            record = scene.record(name)
            if record is not None and record.promoted:
                continue
            entries = self._known(name) | {entry.version: entry for entry in self._present.get(name, ())}
            for entry in reversed(entries.values()):
                key = VersionKey(name, entry.version)
                if self._is_deleted(key) and not entry.own and not entry.deleted:
                    yield Change(ChangeKind.DELETE, name, entry.version, entry.id)

    def _is_deleted(self, key: VersionKey) -> bool:
        subject = self._scene.source[key.subject]
        return key.version in subject.numbers and key.version not in subject.active


def _may_be(subject: Subject, number: int, schema_id: int) -> bool:
    """Whether the version has this id, as far as it was read."""
    found = subject.versions.get(number)
    return found is None or found.id == schema_id


def _is_deleted_there(entry: SchemaEntry, there: Subject | None) -> bool:
    """Soft-deleted on the target: as remembered, where the target was not looked at."""
    return entry.deleted if there is None else entry.target_version not in there.active


def why_not_imported(mode: str, there: Collection[int], known: Collection[int]) -> str:
    """Why no version may be imported into a subject; "" when it may.

    Args:
        mode: of the subject, now.
        there: numbers of the versions that it has now, read behind the mode.
        known: those that the decision has seen there, and those that the link has registered since.
    """
    if mode != IMPORT:
        return f"its mode is {mode or 'not its own'} and not {IMPORT}, so clients may register there"
    return why_not_as_seen(there, known)


def why_not_as_seen(there: Collection[int], known: Collection[int]) -> str:
    """Why what was decided does not hold any more: somebody has registered meanwhile; "" when nobody has."""
    strange = sorted(set(there) - set(known))
    return f"version {strange[0]} came to it since it was looked at, and is not the link's" if strange else ""
