"""The one table of a mirror's states: what it holds, that nothing goes around it, and the page that shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import gateway
from gateway.state.mirror_transitions import TRANSITIONS, WAYS_OUT, WHO, MirrorOperation, NoSuchTransition, check_write
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState
from tests.support.control.mirror_records import changed
from tests.support.pages.states_page import PAGE, page

S, D = MirrorState, MirrorDirection
MIRROR = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1)


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.support.pages.states_page"


def test_every_operation_is_somebodys_and_leads_somewhere() -> None:
    assert set(WHO) == set(MirrorOperation) == {row.operation for row in TRANSITIONS}
    assert all(WHO.values())


def test_every_way_out_of_what_nobody_wants_is_told() -> None:
    unwanted = {S.SOURCE_UNAVAILABLE, S.LINK_FAILED, S.FAILED}
    assert set(WAYS_OUT) == unwanted
    for state, (because, ways) in WAYS_OUT.items():
        out = {row.operation for row in TRANSITIONS if row.before is state and row.after not in unwanted}
        assert {operation for operation, _ in ways} == out
        assert because.endswith((".", ")."))
        assert all(ways)


def test_an_operation_has_one_row_in_a_state() -> None:
    found = [(row.operation, row.before) for row in TRANSITIONS]
    assert len(set(found)) == len(found)


def test_what_the_store_is_allowed_to_write_is_what_the_rows_say() -> None:
    both = [(state, direction) for state in S for direction in D]
    allowed = {
        (before, after)
        for before in both
        for after in both
        if before != after and _is_allowed(changed(MIRROR, state=before[0], direction=before[1]), *after)
    }
    rows = {
        ((row.before, period), (row.after, row.turns or period))
        for row in TRANSITIONS
        for period in (D if row.only is None else [row.only])
        if (row.before, period) != (row.after, row.turns or period)  # nobody needs leave to write what is so
    }
    assert allowed == rows
    for state, direction in both:
        assert _is_allowed(None, state, direction) is ((state, direction) == (S.ACTIVE, D.FORWARD))


def _is_allowed(stored: MirrorRecord | None, state: MirrorState, direction: MirrorDirection) -> bool:
    try:
        check_write(stored, changed(MIRROR, state=state, direction=direction))
    except NoSuchTransition:
        return False
    return True


def test_a_refusal_names_the_topic_and_both_states() -> None:
    stopped = replace(MIRROR, state=S.STOPPED)
    with pytest.raises(
        NoSuchTransition, match="'t' is STOPPED FORWARD, and nothing leads from there to ACTIVE FORWARD"
    ):
        check_write(stopped, MIRROR)
    with pytest.raises(NoSuchTransition, match="'t' would be created STOPPED FORWARD"):
        check_write(None, stopped)


# -- nothing goes around it ------------------------------------------------------------------------------------

_ROOT = Path(gateway.__file__).parent
_NOT_STORED = {  # they make a record to think with, of a time before, or one that was read: it is not written
    "cutover/failback/rules/failback_promote.py:as_promote",
    "groups/dry_runs.py:promote_plan",
    "mirror/offset_map/rules/periods.py:at_end",
    "mirror/offset_map/rules/periods.py:before",
    "api/mirrors/catch_up_models.py:of",
    "jobs/link_plan.py:_record",
}
_GROUPS = {  # a group's states are GroupState's: promoted by itself, or in one write with its topics
    "groups/offsets.py:store",
    "groups/moves.py:_moved",
}
_MIGRATIONS = {  # records of migrations have states of their own
    "migration/migrations.py:_applied",
    "migration/migrations.py:_switch",
    "migration/migrations.py:change",
}


def _writes() -> Iterator[str]:
    """Places that give a record a state, a direction, or the time of a state, by name."""
    for path in sorted(_ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and _gives_a_state(call):
                    yield f"{path.relative_to(_ROOT)}:{function.name}"


def _gives_a_state(call: ast.Call) -> bool:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name not in ("replace", "MirrorRecord", "MirrorFailback", "apply", "dict"):
        return False
    return any(word.arg in ("state", "direction", "state_since_ms") for word in call.keywords)


def test_no_record_gets_a_state_but_from_the_table() -> None:
    allowed = {"state/mirror_states.py:apply", "topics/rules/create.py:record_of", *_GROUPS}
    assert set(_writes()) == allowed | _NOT_STORED | _MIGRATIONS
