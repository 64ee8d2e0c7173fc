"""The state table as a whole, and what it promises."""

from __future__ import annotations

import pytest

from gateway.domain.mirror_states import TABLE, MirrorOperation, WrongState, allows, apply, is_mirroring, transition
from gateway.domain.records import MirrorRecord, MirrorState

S, Op = MirrorState, MirrorOperation


def moves() -> dict[MirrorState, set[MirrorState]]:
    found: dict[MirrorState, set[MirrorState]] = {state: set() for state in S}
    for row in TABLE.values():
        for state, entry in row.items():
            if isinstance(entry, MirrorState):
                found[state].add(entry)
    return found


def test_every_operation_has_an_answer_in_every_state():
    assert set(TABLE) == set(Op)
    for row in TABLE.values():
        assert set(row) == set(S)
        assert all(row.values())


def test_stopped_and_failed_are_final():
    assert moves()[S.STOPPED] == set()
    assert moves()[S.FAILED] == set()


def test_only_a_promote_ends_in_stopped():
    assert [state for state, to in moves().items() if S.STOPPED in to] == [S.PENDING_STOPPED]
    assert [op for op in Op if S.STOPPED in TABLE[op].values()] == [Op.COMPLETE_PROMOTE]


def test_every_state_that_is_in_use_has_a_way_to_fail_but_the_final_ones():
    in_use = {S.ACTIVE} | {to for targets in moves().values() for to in targets}
    assert in_use - {S.STOPPED, S.FAILED} == {state for state, to in moves().items() if S.FAILED in to}


def test_states_of_later_operations_allow_nothing():
    for state in (S.PENDING_SYNCHRONIZE, S.PENDING_MIRROR, S.PENDING_SETUP_FOR_RESTORE, S.PENDING_RESTORE_MIRROR):
        assert not any(allows(op, state) for op in Op)


def test_a_refusal_says_so_in_words():
    for row in TABLE.values():
        for entry in row.values():
            if not isinstance(entry, MirrorState):
                assert entry[0].islower()
                assert "\n" not in entry


@pytest.mark.parametrize(
    ("operation", "state", "expected"),
    [
        (Op.PAUSE, S.ACTIVE, S.PAUSED),
        (Op.RESUME, S.PAUSED, S.ACTIVE),
        (Op.PROMOTE, S.ACTIVE, S.PENDING_STOPPED),
        (Op.FORCE_PROMOTE, S.SOURCE_UNAVAILABLE, S.PENDING_STOPPED),
        (Op.ABORT_PROMOTE, S.PENDING_STOPPED, S.ACTIVE),
        (Op.LOSE_SOURCE, S.ACTIVE, S.SOURCE_UNAVAILABLE),
        (Op.FIND_SOURCE, S.SOURCE_UNAVAILABLE, S.ACTIVE),
    ],
)
def test_allowed(operation, state, expected):
    assert transition(operation, state) is expected


@pytest.mark.parametrize(
    ("operation", "state", "words"),
    [
        (Op.PAUSE, S.PAUSED, "already PAUSED"),
        (Op.RESUME, S.ACTIVE, "not paused"),
        (Op.PROMOTE, S.PAUSED, "resume it first"),
        (Op.PROMOTE, S.PENDING_STOPPED, "being promoted"),
        (Op.PROMOTE, S.STOPPED, "ended for good"),
        (Op.PROMOTE, S.SOURCE_UNAVAILABLE, "source is unavailable"),
        (Op.PAUSE, S.FAILED, "FAILED"),
    ],
)
def test_refused(operation, state, words):
    with pytest.raises(WrongState, match=words):
        transition(operation, state)


def test_apply_changes_state_time_and_what_was_asked():
    mirror = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1, state_since_ms=5)

    paused = apply(Op.PAUSE, mirror, 77, error_message="x")

    assert (paused.state, paused.state_since_ms, paused.error_message) == (S.PAUSED, 77, "x")
    assert mirror.state is S.ACTIVE
    with pytest.raises(WrongState, match="mirror topic 't' is already PAUSED"):
        apply(Op.PAUSE, paused, 78)


def test_what_the_engine_runs():
    assert {state for state in S if is_mirroring(state)} == {S.ACTIVE, S.SOURCE_UNAVAILABLE, S.PENDING_STOPPED}
