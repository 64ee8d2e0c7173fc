"""What a snapshot is made of, and what has changed between two of them.

A snapshot is sections by name; a section is rows by key; a row is flat: field -> text, number, boolean, null, or a list
of such. So a change is small, and a page can keep every element whose row says what it said before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Cell: TypeAlias = "str | int | float | bool | Sequence[Cell] | Mapping[str, Cell] | None"
Row: TypeAlias = Mapping[str, Cell]
Rows: TypeAlias = Mapping[str, Row]
Snapshot: TypeAlias = Mapping[str, Rows]

SET = "set"
GONE = "gone"


def changes(before: Snapshot, after: Snapshot) -> dict[str, dict[str, object]]:
    """Section -> `set`: key -> fields that are new or say something else, and `gone`: keys that are there no more.

    A field of a row never goes: every row of a section has the same ones. Sections without a change are left out.
    """
    found: dict[str, dict[str, object]] = {}
    for section in {**before, **after}:
        old, new = before.get(section, {}), after.get(section, {})
        changed = {key: fields for key, row in new.items() if (fields := _changed(old.get(key), row))}
        gone = [key for key in old if key not in new]
        said: dict[str, object] = {}
        if changed:
            said[SET] = changed
        if gone:
            said[GONE] = gone
        if said:
            found[section] = said
    return found


def _changed(old: Row | None, new: Row) -> Row:
    if old is None:
        return new
    return {field: value for field, value in new.items() if field not in old or old[field] != value}
