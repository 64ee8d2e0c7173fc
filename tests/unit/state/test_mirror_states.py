"""The state table as a whole, and what it promises."""

from __future__ import annotations

import pytest

from gateway.state.mirror_states import TABLE, MirrorOperation, WrongState, allows, apply, is_mirroring, transition
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState
from tests.support.control.mirror_records import changed, mirror_record

S, Op, D = MirrorState, MirrorOperation, MirrorDirection


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


def test_out_of_stopped_only_the_failbacks_lead():
    assert moves()[S.STOPPED] == {S.PENDING_SYNCHRONIZE, S.PENDING_SETUP_FOR_RESTORE}
    assert moves()[S.FAILED] == {S.STOPPED, S.PENDING_SETUP_FOR_RESTORE, S.ACTIVE}


def test_what_ends_in_stopped():
    assert [op for op in Op if S.STOPPED in TABLE[op].values()] == [Op.FAILOVER, Op.COMPLETE_PROMOTE, Op.ABORT_REVERSE]
    assert [state for state in S if not allows(Op.FAILOVER, state)] == [S.STOPPED]  # it is the way out of anything


def test_what_may_fail_is_what_mirrors_or_destroys():
    fails = {state for state, to in moves().items() if S.FAILED in to}
    assert fails == {state for state in S if is_mirroring(state)} | {
        S.PAUSED,
        S.PENDING_MIRROR,
        S.PENDING_SETUP_FOR_RESTORE,
    }


def test_every_pending_state_has_a_way_on_and_a_way_out():
    for state in S:
        if state.startswith("PENDING_"):
            to = moves()[state]
            assert S.STOPPED in to
            assert to - {S.STOPPED, S.FAILED}, state


@pytest.mark.parametrize(
    ("operation", "state", "direction", "words"),
    [
        (Op.COMPLETE_PROMOTE, S.PENDING_STOPPED, D.REVERSE, "is a mirror back to the source"),
        (Op.COMPLETE_FAILBACK, S.PENDING_STOPPED, D.FORWARD, "is no mirror back to the source"),
        (Op.RESTORE, S.FAILED, D.FORWARD, "fail it over first"),
    ],
)
def test_one_way_only(operation, state, direction, words):
    mirror = mirror_record(link="l", source_topic="t", mirror_topic="t", mirror_id=1, state=state, direction=direction)
    with pytest.raises(WrongState, match=f"mirror topic 't' .*{words}"):
        apply(operation, mirror, 5)
    other = D.FORWARD if direction is D.REVERSE else D.REVERSE
    assert apply(operation, changed(mirror, direction=other), 5).state is transition(operation, state)


def test_a_mirror_on_its_way_back_stays_on_it_when_it_is_to_begin_paused():
    mirror = mirror_record(link="l", source_topic="t", mirror_topic="t", mirror_id=1, state=S.PENDING_MIRROR)
    paused = apply(Op.PAUSE, mirror, 5)
    assert (paused.state, paused.state_since_ms) == (S.PENDING_MIRROR, mirror.state_since_ms)


def test_a_reverse_that_is_to_follow_outlives_the_cutover_and_nothing_else():
    mirror = mirror_record(
        link="l", source_topic="t", mirror_topic="t", mirror_id=1, state=S.PENDING_STOPPED, then_reverse="pause"
    )
    assert apply(Op.COMPLETE_PROMOTE, mirror, 5).cutover.then_reverse == "pause"
    for operation in (Op.ABORT_PROMOTE, Op.FAILOVER, Op.FAIL):
        assert not apply(operation, mirror, 5).cutover.then_reverse
    stopped = apply(Op.COMPLETE_PROMOTE, mirror, 5)
    assert not apply(Op.REVERSE, stopped, 6).cutover.then_reverse


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
        (Op.LOSE_LINK, S.SOURCE_UNAVAILABLE, S.LINK_FAILED),
        (Op.FIND_SOURCE, S.LINK_FAILED, S.ACTIVE),
        (Op.FAILOVER, S.LINK_FAILED, S.STOPPED),
        (Op.REVERSE, S.STOPPED, S.PENDING_SYNCHRONIZE),
        (Op.SYNCHRONIZED, S.PENDING_SYNCHRONIZE, S.PENDING_MIRROR),
        (Op.BEGIN_MIRROR, S.PENDING_MIRROR, S.ACTIVE),
        (Op.BEGIN_PAUSED, S.PENDING_MIRROR, S.PAUSED),
        (Op.COMPLETE_FAILBACK, S.PENDING_STOPPED, S.PENDING_MIRROR),
        (Op.RESTORE, S.STOPPED, S.PENDING_SETUP_FOR_RESTORE),
        (Op.RECREATED, S.PENDING_SETUP_FOR_RESTORE, S.PENDING_RESTORE_MIRROR),
        (Op.BEGIN_MIRROR, S.PENDING_RESTORE_MIRROR, S.ACTIVE),
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
        (Op.PROMOTE, S.STOPPED, "promoted already"),
        (Op.REVERSE, S.ACTIVE, "promote it first"),
        (Op.REVERSE, S.PENDING_MIRROR, "not STOPPED"),
        (Op.REVERSE, S.FAILED, "fail it over first"),
        (Op.FAILOVER, S.STOPPED, "STOPPED already"),
        (Op.RESTORE, S.PAUSED, "not STOPPED"),
        (Op.PAUSE, S.PENDING_SETUP_FOR_RESTORE, "being restored"),
        (Op.PROMOTE, S.PENDING_SYNCHRONIZE, "being reversed"),
        (Op.PROMOTE, S.SOURCE_UNAVAILABLE, "source is unavailable"),
        (Op.PAUSE, S.FAILED, "FAILED"),
        (Op.PROMOTE, S.LINK_FAILED, "update the link's credentials first"),
        (Op.RESUME, S.LINK_FAILED, "give the link credentials"),
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
    assert {state for state in S if is_mirroring(state)} == {
        S.ACTIVE,
        S.SOURCE_UNAVAILABLE,
        S.LINK_FAILED,
        S.PENDING_STOPPED,
        S.PENDING_RESTORE_MIRROR,
    }
