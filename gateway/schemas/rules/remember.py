"""What is remembered of schemas: the records of the state topic, and the id map that they are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from gateway.schemas.rules.model import IMPORT, READONLY, SchemaReference, Subject, VersionKey
from gateway.schemas.rules.scene import Change, ChangeKind, remembered
from gateway.state.schemas.schema_records import SchemaEntry, SchemaRecord

MAX_ENTRIES: Final = 5_000
"""Versions of one subject."""


class TooManyVersions(ValueError):
    """A subject has more versions than are remembered. One line."""


def of_link(records: Mapping[str, SchemaRecord], link_id: int) -> dict[str, SchemaRecord]:
    """The records of this very link: another one of its name left its own behind."""
    return {subject: record for subject, record in records.items() if record.link_id == link_id}


def with_entries(record: SchemaRecord, entries: Iterable[SchemaEntry]) -> SchemaRecord:
    """The record with these versions, in the place of what it said of them.

    Raises:
        TooManyVersions: it would have too many.
    """
    known = remembered(record) | {entry.version: entry for entry in entries}
    if len(known) > MAX_ENTRIES:
        words = f"subject '{record.subject}' has more than {MAX_ENTRIES} versions; take schema.versions=latest"
        raise TooManyVersions(words)
    return replace(record, entries=tuple(known[number] for number in sorted(known)))


def before(change: Change, record: SchemaRecord) -> SchemaRecord:
    """What is stored before a change is asked for, so that a kill in between leaves nothing that nobody knows of."""
    if change.kind is ChangeKind.MODE and change.value == IMPORT:
        return replace(record, imports=True)
    if change.kind is ChangeKind.LEVEL and change.value:
        return replace(record, level=change.value)
    return record


def after(change: Change, record: SchemaRecord, target: SchemaEntry | None = None) -> SchemaRecord:
    """What is stored when the target has made a change. `target`: of a REGISTER. Raises as `with_entries`."""
    if change.kind is ChangeKind.REGISTER and target is not None:
        return with_entries(record, [target])
    if change.kind is ChangeKind.DELETE:
        found = remembered(record).get(change.version)
        return record if found is None else with_entries(record, [replace(found, deleted=True)])
    if change.kind is ChangeKind.LEVEL and not change.value:
        return replace(record, level="")
    if change.kind is ChangeKind.MODE and not change.value:
        return replace(record, imports=False)
    return record


def at_promote(source: Mapping[str, Subject], records: Mapping[str, SchemaRecord]) -> list[Change]:
    """The modes that subjects get at the promote of the schemas: those that they have on the source, else none."""
    changes = []
    for name, record in sorted(records.items()):
        mode = source[name].mode if name in source else ""
        if not record.promoted and (record.imports or mode in READONLY):
            changes.append(Change(ChangeKind.MODE, name, value=mode if mode in READONLY else ""))
    return changes


def references_on_target(
    references: Iterable[SchemaReference], records: Mapping[str, SchemaRecord]
) -> tuple[SchemaReference, ...]:
    """The same, with the versions that the target has given. Raises KeyError for one that it does not have."""
    found = []
    for one in references:
        entry = remembered(records.get(one.subject)).get(one.version)
        if entry is None:
            raise KeyError(VersionKey(one.subject, one.version))
        found.append(one._replace(version=entry.target_version))
    return tuple(found)
