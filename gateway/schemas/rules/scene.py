"""What a plan is made of, and what it is: a scene in, changes and what is left out. Theory: `rules/plan.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from gateway.schemas.rules.model import ABSENT, Subject, VersionKey
from gateway.state.schemas.schema_options import SchemaIds, SchemaVersions
from gateway.state.schemas.schema_records import SchemaEntry, SchemaRecord


class SchemaReason(StrEnum):
    """Why something of the source is not on the target. The last four are no errors."""

    ID_TAKEN = "ID_TAKEN"
    VERSION_DIFFERS = "VERSION_DIFFERS"
    SUBJECT_DIFFERS = "SUBJECT_DIFFERS"
    TARGET_READONLY = "TARGET_READONLY"
    REFERENCE_MISSING = "REFERENCE_MISSING"
    REFERENCE_LEFT_OUT = "REFERENCE_LEFT_OUT"
    REFERENCE_CYCLE = "REFERENCE_CYCLE"
    ID_UNKNOWN = "ID_UNKNOWN"
    AFTER_PROMOTE = "AFTER_PROMOTE"
    GONE_ON_SOURCE = "GONE_ON_SOURCE"
    UNTIL_PROMOTED = "UNTIL_PROMOTED"
    FILTERED = "FILTERED"

    @property
    def is_error(self) -> bool:
        """Somebody must do something."""
        return self not in (
            SchemaReason.AFTER_PROMOTE,
            SchemaReason.GONE_ON_SOURCE,
            SchemaReason.UNTIL_PROMOTED,
            SchemaReason.FILTERED,
        )


class LeftOutSchema(NamedTuple):
    """`version`: 0 for the subject itself. `detail`: one line for the operator."""

    subject: str
    version: int
    reason: SchemaReason
    detail: str


class ChangeKind(StrEnum):
    """MODE, LEVEL: of a subject. REGISTER, DELETE: a version; DELETE can be taken back (soft)."""

    MODE = "MODE"
    LEVEL = "LEVEL"
    REGISTER = "REGISTER"
    DELETE = "DELETE"


class Change(NamedTuple):
    """One request that changes the target.

    `version`, `id`: the source's. `value`: the level or mode, '' takes away the subject's own. `force`: IMPORT though
    the subject has versions.
    """

    kind: ChangeKind
    subject: str
    version: int = 0
    id: int = 0
    value: str = ""
    force: bool = False

    @property
    def key(self) -> VersionKey:
        """What the change is about."""
        return VersionKey(self.subject, self.version)


class SchemaPlanOptions(NamedTuple):
    """What the link says: which ids, which versions, and whether soft-deleted ones are among them."""

    ids: SchemaIds = SchemaIds.FIXED
    versions: SchemaVersions = SchemaVersions.ALL
    deleted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlanInput:
    """All that a plan is made of.

    `source`, `target`: by subject. `taken`: id -> digest of what the target has under it, '' for nothing; of every id
    that may have to be registered. `asked`: versions that are wanted whatever `versions` says. `target_level`: of the
    target's subjects that have none of their own.
    """

    source: Mapping[str, Subject]
    target: Mapping[str, Subject]
    records: Mapping[str, SchemaRecord] = field(default_factory=dict)
    taken: Mapping[int, str] = field(default_factory=dict)
    asked: frozenset[VersionKey] = frozenset()
    options: SchemaPlanOptions = field(default_factory=SchemaPlanOptions)
    target_level: str = ""

    def record(self, subject: str) -> SchemaRecord | None:
        """What the link remembers of a subject."""
        return self.records.get(subject)

    def of_target(self, subject: str) -> Subject:
        """The target's."""
        return self.target.get(subject, ABSENT)


@dataclass(frozen=True, slots=True)
class SchemaRoundPlan:
    """`present`: versions that the target has already, to be noted. `kept`: versions that are noted and stay.

    `own`: subjects that the target had before the link came to them, of which nothing is noted yet.
    """

    changes: tuple[Change, ...] = ()
    present: Mapping[str, tuple[SchemaEntry, ...]] = field(default_factory=dict)
    left_out: tuple[LeftOutSchema, ...] = ()
    kept: int = 0
    own: frozenset[str] = frozenset()

    @property
    def errors(self) -> list[LeftOutSchema]:
        """What somebody must look at."""
        return [one for one in self.left_out if one.reason.is_error]


def numbers_by_subject(keys: Iterable[VersionKey]) -> dict[str, list[int]]:
    """Of versions, the numbers of each subject: worked out once, since there are thousands of both."""
    found: dict[str, list[int]] = {}
    for key in keys:
        found.setdefault(key.subject, []).append(key.version)
    return found


def wanted_versions(subject: Subject, options: SchemaPlanOptions, asked: Iterable[int] = ()) -> set[int]:
    """Numbers of the versions of a source's subject that the target is to have. `asked`: these in any case."""
    if options.versions is SchemaVersions.LATEST:
        return {*asked, *([max(subject.active)] if subject.active else [])}
    return {*asked, *(subject.numbers if options.deleted else subject.active)}


def remembered(record: SchemaRecord | None) -> dict[int, SchemaEntry]:
    """What a link remembers of a subject, by the source's version."""
    return {} if record is None else {entry.version: entry for entry in record.entries}


def known_entries(record: SchemaRecord | None, ids: SchemaIds) -> dict[int, SchemaEntry]:
    """What is remembered and holds: where ids are fixed, not what was translated before that was asked for."""
    fixed = ids is SchemaIds.FIXED
    return {
        number: entry
        for number, entry in remembered(record).items()
        if not fixed or (entry.target_version, entry.target_id) == (number, entry.id)
    }
