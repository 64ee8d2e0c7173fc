"""Looks at both registries: what a plan is made of, in as few requests as will do.

Versions hardly ever change (deleted for good, a number may be given again), so one that is remembered is not read again
but in a thorough look, or where its id is asked for. Of each subject the numbers of its versions are asked for, and
only of one with something new all that concerns it. Requests to a registry are
`AT_ONCE` at a time; how many subjects and versions there may be is bounded.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from gateway.errors import Conflict
from gateway.schemas.registry import Registry
from gateway.schemas.rules.model import ABSENT, Subject, Version, VersionKey, is_of_context
from gateway.schemas.rules.plan import references_to_read
from gateway.schemas.rules.scene import (
    LeftOutSchema,
    SchemaPlanInput,
    SchemaPlanOptions,
    SchemaReason,
    known_entries,
    numbers_by_subject,
    wanted_versions,
)
from gateway.state.name_filters import NameFilters
from gateway.state.schemas.registry_properties import RegistrySide
from gateway.state.schemas.schema_options import SchemaIds
from gateway.state.schemas.schema_records import SchemaEntry, SchemaRecord

AT_ONCE: Final = 8
MAX_SUBJECTS: Final = 20_000
MAX_VERSIONS: Final = 100_000
DEEPEST: Final = 64
"""Of references of references."""

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class RegistryQuery:
    """What a look is to find out. `ids`: that were seen in records. `thorough`: also what hardly ever changes.
    `normalize`: the target normalizes schemas."""

    filters: NameFilters
    options: SchemaPlanOptions
    ids: frozenset[int] = frozenset()
    thorough: bool = True
    normalize: bool = False


@dataclass(frozen=True, slots=True)
class RegistriesView:
    """`notes`: of ids that were asked for and do not come. `subjects`: how many the link copies."""

    scene: SchemaPlanInput
    notes: tuple[LeftOutSchema, ...]
    subjects: int


class RegistryReader:
    """One look, for one link."""

    def __init__(
        self,
        source: Registry,
        target: Registry,
        records: Mapping[str, SchemaRecord],
        asked: RegistryQuery,
        go_on: Callable[[], None],
    ) -> None:
        """`go_on`: called before most requests; raises to break the look off."""
        self._source = source
        self._target = target
        self._records = records
        self._asked = asked
        self._go_on = go_on
        self._versions: Counter[RegistrySide] = Counter()

    async def take(self) -> RegistriesView:
        """Nothing is changed.

        Raises:
            RegistryError: a registry does not answer, or refuses.
            Conflict: there is too much of it.
        """
        asked = self._asked
        listed = await self._source.subjects()
        names = [name for name in listed if asked.filters.passes(name) and not is_of_context(name)]
        if len(names) > MAX_SUBJECTS:
            raise Conflict(f"{len(names)} subjects, {MAX_SUBJECTS} are possible: name fewer in schema.subject.filters")
        wanted, notes = await self._wanted(names)
        subjects = await self._each(names, self._numbers)
        for name in set(self._records) - set(listed):
            subjects[name] = ABSENT
        of_each = numbers_by_subject(wanted)
        to_read = {
            name: wanted_versions(subject, asked.options, of_each.get(name, ()))
            & set(subject.numbers) - self._settled(name, subject, of_each.get(name, ()))
            for name, subject in subjects.items()
        }
        keys = [VersionKey(name, number) for name, numbers in to_read.items() for number in numbers]
        await self._read(subjects, keys)
        await self._follow_references(subjects)
        touched = [
            name for name, subject in subjects.items() if asked.thorough or name in of_each or self._new(name, subject)
        ]
        await self._settings(subjects, touched)
        target, taken = await self._of_target(subjects, touched)
        scene = SchemaPlanInput(
            source=subjects,
            target=target,
            records=self._records,
            taken=taken,
            asked=wanted,
            options=asked.options,
            target_level=await self._target.level(),
        )
        return RegistriesView(scene, notes, len(names))

    async def _wanted(self, names: Collection[str]) -> tuple[frozenset[VersionKey], tuple[LeftOutSchema, ...]]:
        """Which versions have the ids that were asked for."""
        uses = await self._each(self._asked.ids, self._source.uses)
        there, notes, wanted = set(names), [], set()
        for schema_id, keys in sorted(uses.items()):
            found = {key for key in keys if key.subject in there}
            wanted |= found
            if not keys:
                notes.append(
                    LeftOutSchema("", 0, SchemaReason.ID_UNKNOWN, f"the source does not know id {schema_id} either")
                )
            elif not found:
                detail = f"id {schema_id}: schema.subject.filters leave the subject out"
                notes.append(LeftOutSchema(keys[0].subject, keys[0].version, SchemaReason.FILTERED, detail))
        return frozenset(wanted), tuple(notes)

    async def _numbers(self, name: str) -> Subject:
        return await _numbers(self._source, name)

    async def _read(self, subjects: dict[str, Subject], keys: Collection[VersionKey]) -> None:
        self._count(self._source, keys)
        found = await self._each(keys, lambda key: self._source.version(*key))
        by_subject: dict[str, dict[int, Version]] = {}
        for key, version in found.items():
            if version is not None:
                by_subject.setdefault(key.subject, {})[key.version] = version
        for name, versions in by_subject.items():
            subjects[name] = replace(subjects[name], versions={**subjects[name].versions, **versions})

    def _count(self, registry: Registry, versions: Collection[object]) -> None:
        """These are about to be read."""
        self._versions[registry.side] += len(versions)
        if self._versions[registry.side] > MAX_VERSIONS:
            raise Conflict(f"more than {MAX_VERSIONS} versions: take schema.versions=latest, or name fewer subjects")

    async def _follow_references(self, subjects: dict[str, Subject]) -> None:
        """What schemas name comes along, whatever the filters say; not from another context, whose ids are others."""
        tried: set[VersionKey] = set()
        for _ in range(DEEPEST):
            named = references_to_read(subjects, self._records, self._asked.options.ids) - tried
            missing = {key for key in named if not is_of_context(key.subject)}
            if not missing:
                return
            tried |= missing
            new = {key.subject for key in missing if not subjects.get(key.subject, ABSENT).numbers}
            subjects |= await self._each(new, self._numbers)
            await self._read(subjects, missing)

    def _known(self, name: str) -> dict[int, SchemaEntry]:
        return known_entries(self._records.get(name), self._asked.options.ids)

    def _settled(self, name: str, subject: Subject, asked: Collection[int]) -> set[int]:
        """Versions that are remembered, and not to be read again."""
        if self._asked.thorough:
            return set()
        return self._known(name).keys() - {*asked} - (self._deleted(name) & subject.active)

    def _deleted(self, name: str) -> set[int]:
        """Versions that are soft-deleted on the target, as far as is known, and not the target's own affair."""
        record = self._records.get(name)
        known = {} if record is not None and record.promoted else self._known(name)
        return {number for number, entry in known.items() if entry.deleted}

    def _new(self, name: str, subject: Subject) -> bool:
        """It has versions that are not remembered, or that were deleted, or are live again, meanwhile."""
        known = self._known(name)
        deleted = subject.numbers - subject.active
        return (
            any(number not in known for number in subject.versions)
            or any(number in deleted and not entry.deleted for number, entry in known.items())
            or bool(self._deleted(name) & subject.active)
        )

    async def _settings(self, subjects: dict[str, Subject], names: Iterable[str]) -> None:
        async def settings(name: str) -> tuple[str, str]:
            return await self._source.level(name), await self._source.mode(name)

        found = await self._each([name for name in names if subjects[name].numbers], settings)
        for name, (level, mode) in found.items():
            subjects[name] = replace(subjects[name], level=level, mode=mode)

    async def _of_target(
        self, subjects: Mapping[str, Subject], names: Iterable[str]
    ) -> tuple[dict[str, Subject], dict[int, str]]:
        found = await self._each(names, lambda name: self._target_subject(name, subjects[name]))
        if self._asked.options.ids is SchemaIds.TRANSLATE:
            return found, {}
        ids = {
            version.id
            for name in found
            for number, version in subjects[name].versions.items()
            if number not in self._known(name) and number not in found[name].versions
        }
        schemas = await self._each(ids, self._target.schema)
        return found, {schema_id: schema.digest for schema_id, schema in schemas.items() if schema is not None}

    async def _target_subject(self, name: str, source: Subject) -> Subject:
        """With those of its versions that are to be compared."""
        subject = await _numbers(self._target, name)
        fixed = self._asked.options.ids is SchemaIds.FIXED
        compared = subject.numbers & source.versions.keys() if fixed or not source.versions else subject.numbers
        self._count(self._target, compared)
        versions = {number: await self._compared(name, number, source.versions) for number in sorted(compared)}
        return replace(
            subject,
            versions={number: version for number, version in versions.items() if version is not None},
            level=await self._target.level(name),
            mode=await self._target.mode(name) if fixed else "",
        )

    async def _compared(self, name: str, number: int, source: Mapping[int, Version]) -> Version | None:
        """A version of the target; with the source's schema where the target itself says that both are the same, and
        only writes it otherwise."""
        found, wanted, asked = await self._target.version(name, number), source.get(number), self._asked
        if found is None or wanted is None or found.id != wanted.id or asked.options.ids is SchemaIds.TRANSLATE:
            return found
        if number in self._known(name) or found.schema.digest == wanted.schema.digest:
            return found
        same = await self._target.lookup(name, wanted.schema.body(), normalize=asked.normalize, deleted=True)
        is_same = same is not None and same.version == number
        return replace(found, schema=wanted.schema) if is_same else found

    async def _each(self, items: Iterable[_T], ask: Callable[[_T], Awaitable[_R]]) -> dict[_T, _R]:
        left = iter(set(items))
        found: dict[_T, _R] = {}

        async def worker() -> None:
            for item in left:
                self._go_on()
                found[item] = await ask(item)

        work = [asyncio.create_task(worker(), name=f"schema registry {number}") for number in range(AT_ONCE)]
        try:
            await asyncio.gather(*work)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
        return found


async def _numbers(registry: Registry, name: str) -> Subject:
    numbers = await registry.numbers(name, deleted=True)
    active = await registry.numbers(name, deleted=False) if numbers else frozenset()
    return Subject(numbers=numbers | active, active=active)
