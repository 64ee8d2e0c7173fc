"""The id map of a link: which id of the target's schema registry stands for an id of the source's.

It is what the records of the state topic say (`schema_records.py`), so every gateway has it, and none is stored beside
them. A mirror that writes ids anew (`MirrorRecord.translates_ids`) asks it for each batch, so it is made of what has
changed since it was asked last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from gateway.state.schemas.schema_records import SchemaRecord


def id_map(records: Iterable[SchemaRecord]) -> dict[int, int]:
    """Source id -> target id. An id means one schema, so what several subjects say of it is the same.

    Where they do not (the target gave a schema another id under another subject), the lowest one counts.
    """
    found: dict[int, int] = {}
    for record in records:
        _take(found, record)
    return found


def _take(into: dict[int, int], record: SchemaRecord) -> None:
    for entry in record.entries:
        into[entry.id] = min(into.get(entry.id, entry.target_id), entry.target_id)


def same_on_target(records: Iterable[SchemaRecord]) -> dict[int, int]:
    """Target ids that stand for the same source id as a lower one -> the lowest. Empty where each has one, as a rule.

    A copy may have either: the lower one may have come later.
    """
    lowest: dict[int, int] = {}  # target id -> another one of its class; those that are not in it are the lowest

    def root(one: int) -> int:
        while one in lowest:
            one = lowest[one]
        return one

    first: dict[int, int] = {}
    for record in records:
        for entry in record.entries:
            one, other = root(first.setdefault(entry.id, entry.target_id)), root(entry.target_id)
            if one != other:
                lowest[max(one, other)] = min(one, other)
    return {one: root(one) for one in lowest}


class SchemaViews(Protocol):
    """The records as they stand, by link and subject; `applied` grows with every change of any record."""

    @property
    def applied(self) -> int:
        """See above."""

    @property
    def schemas(self) -> Mapping[str, Mapping[str, SchemaRecord]]:
        """See above."""


class IdMaps:
    """Of all links, as of now."""

    def __init__(self, views: SchemaViews) -> None:
        self._views = views
        self._made: dict[tuple[str, int], _Made] = {}

    def of(self, link: str, link_id: int) -> Mapping[int, int]:
        """Source id -> target id; empty when nothing is known. Another link of the name knows nothing of this one's."""
        made = self._made.get((link, link_id))
        if made is None:
            made = self._made[link, link_id] = _Made(link_id)
        if made.at != self._views.applied:
            made.at = self._views.applied
            made.bring_up_to(self._views.schemas.get(link, {}))
        return made.ids


class _Made:
    """One map, and the records of which it was made."""

    def __init__(self, link_id: int) -> None:
        self.at = -2  # before any: `applied` begins at -1
        self.ids: dict[int, int] = {}
        self._link_id = link_id
        self._taken: dict[str, SchemaRecord] = {}

    def bring_up_to(self, records: Mapping[str, SchemaRecord]) -> None:
        """Entries are added; where one is gone, with its record or as a version that was registered anew, all is made
        anew: the id that it had may be lower than the one that counts now."""
        ours = {subject: record for subject, record in records.items() if record.link_id == self._link_id}
        changed = [subject for subject, record in ours.items() if self._taken.get(subject) is not record]
        again = {subject: self._taken[subject] for subject in changed if subject in self._taken}
        if self._taken.keys() - ours.keys() or any(not _ids(one) <= _ids(ours[name]) for name, one in again.items()):
            self.ids, changed = {}, list(ours)
        for subject in changed:
            _take(self.ids, ours[subject])
        self._taken = ours


def _ids(record: SchemaRecord) -> set[tuple[int, int]]:
    return {(entry.id, entry.target_id) for entry in record.entries}
