"""What has changed between two snapshots."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.console.rules.sections import Snapshot, changes

_ROWS = st.dictionaries(
    st.sampled_from("abc"), st.fixed_dictionaries({"x": st.integers(0, 2), "y": st.sampled_from(["", "s", None])})
)
_SNAPSHOTS = st.dictionaries(st.sampled_from(["topics", "groups"]), _ROWS)


def applied(before: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """As the page does it."""
    after = {section: dict(rows) for section, rows in before.items()}
    for section, said in told.items():
        rows = after.setdefault(section, {})
        for key, fields in said.get("set", {}).items():
            rows[key] = {**rows.get(key, {}), **fields}
        for key in said.get("gone", ()):
            del rows[key]
    return {section: rows for section, rows in after.items() if rows}


@given(_SNAPSHOTS, _SNAPSHOTS)
def test_a_page_that_takes_the_changes_has_what_is_there_now(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert applied(before, changes(before, after)) == {name: rows for name, rows in after.items() if rows}


@given(_SNAPSHOTS)
def test_what_stays_is_not_told(snapshot: dict[str, Any]) -> None:
    assert changes(snapshot, snapshot) == {}


def test_only_the_fields_that_say_something_else_are_told() -> None:
    before: Snapshot = {"topics": {"l/a": {"lag": 1, "state": "ACTIVE"}, "l/b": {"lag": 0, "state": "ACTIVE"}}}
    after: Snapshot = {"topics": {"l/a": {"lag": 2, "state": "ACTIVE"}}}
    assert changes(before, after) == {"topics": {"set": {"l/a": {"lag": 2}}, "gone": ["l/b"]}}
