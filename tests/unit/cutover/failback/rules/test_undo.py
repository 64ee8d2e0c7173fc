"""The table of an undo: from every state that a kill can leave, what is next, and that it comes to an end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.cutover.failback.rules.undo import (
    PATIENCE_S,
    UndoSnapshot,
    UndoStep,
    UndoStepKind,
    UndoViolated,
    check_step,
    next_step,
)
from gateway.state.mirror_states import MirrorOperation, apply
from gateway.state.records import (
    Deletion,
    MirrorCutover,
    MirrorDirection,
    MirrorFailback,
    MirrorRecord,
    MirrorState,
    PartitionStart,
    ThenReverse,
    Undo,
)

K, S = UndoStepKind, MirrorState
AT, KEEP = 1_000_000, 60_000
END = AT + KEEP
ON_ITS_WAY = [S.PENDING_SYNCHRONIZE, S.PENDING_MIRROR]


def record(
    state: MirrorState = S.STOPPED, undo: Undo = Undo.NONE, *, reverse: bool = False, **more: Any
) -> MirrorRecord:
    cutover = MirrorCutover(
        at_ms=AT,
        stopped_at=(7,),
        stopped_copy_at=(7,),
        undo=undo,
        **({"undo_until_ms": END} | more.pop("cutover", {})),
    )
    direction = MirrorDirection.REVERSE if reverse else MirrorDirection.FORWARD
    return MirrorRecord(
        link="l",
        source_topic="orders",
        mirror_topic="orders",
        mirror_id=1,
        state=state,
        starts=(PartitionStart(0, 0),),
        cutover=cutover,
        failback=MirrorFailback(direction=direction),
        **more,
    )


def step(one: MirrorRecord, now_ms: int = AT + 1, **more: Any) -> UndoStepKind:
    return next_step(UndoSnapshot(record=one, now_ms=now_ms, **more)).kind


def test_a_promote_is_followed_by_a_mirror_back() -> None:
    assert step(record()) is K.START


@pytest.mark.parametrize(
    ("one", "more"),
    [
        (record(cutover={"undo_until_ms": 0}), {}),
        (record(), {"now_ms": END}),
        (record(cutover={"not_mirrored": (0,)}), {}),
        (record(cutover={"then_reverse": ThenReverse.START}), {}),
        (record(deletion=Deletion.RECORD), {}),
        (record(created=False), {}),
        (record(undo=Undo.OPEN), {}),
        (record(undo=Undo.OVER), {}),
        (record(undo=Undo.REFUSED), {}),
        (record(S.ACTIVE), {}),
        (record(S.ACTIVE, reverse=True), {"now_ms": END}),
    ],
    ids=[
        "not asked for",
        "too late",
        "failed over",
        "a reverse follows",
        "being deleted",
        "being created",
        "somebody has ended it",
        "it was over",
        "it was refused",
        "never promoted",
        "somebody began it",
    ],
)
def test_what_is_left_alone(one: MirrorRecord, more: dict[str, int]) -> None:
    assert step(one, **more) is K.DONE


def test_it_is_held_back_for_a_reason() -> None:
    found = next_step(UndoSnapshot(record=record(), now_ms=AT, held="its link is paused"))
    assert found == UndoStep(K.WAIT, "its link is paused")


@pytest.mark.parametrize("state", [S.ACTIVE, S.PAUSED, S.FAILED, S.SOURCE_UNAVAILABLE, *ON_ITS_WAY])
def test_it_is_kept_until_its_time_is_over(state: MirrorState) -> None:
    one = record(state, Undo.OPEN, reverse=state is not S.PENDING_SYNCHRONIZE)
    assert step(one, END - 1) is K.DONE
    assert step(one, END) is K.MARK


def test_who_goes_home_at_its_end_does_so() -> None:
    assert step(record(S.PENDING_STOPPED, Undo.OPEN, reverse=True), END) is K.WAIT
    assert step(record(S.PENDING_STOPPED, Undo.OVER, reverse=True), END) is K.WAIT


@pytest.mark.parametrize("state", [S.ACTIVE, S.SOURCE_UNAVAILABLE, S.LINK_FAILED])
def test_a_mirror_that_runs_is_paused_first(state: MirrorState) -> None:
    assert step(record(state, Undo.OVER, reverse=True), END) is K.PAUSE


@pytest.mark.parametrize("state", [S.PAUSED, S.FAILED])
def test_the_source_topic_gets_its_configs_back_and_not_for_ever(state: MirrorState) -> None:
    lifted = record(state, Undo.OVER, reverse=True, restore_configs={"retention.ms": "1"})
    assert step(lifted, END) is K.RESTORE_CONFIGS
    assert step(lifted, END, troubled_s=PATIENCE_S - 1) is K.RESTORE_CONFIGS
    assert step(lifted, END, troubled_s=PATIENCE_S) is K.STOP
    assert step(replace(lifted, restore_configs={}), END) is K.STOP


@pytest.mark.parametrize("state", ON_ITS_WAY)
def test_one_that_has_not_begun_by_then_ends_after_a_while(state: MirrorState) -> None:
    one = record(state, Undo.OVER, reverse=state is S.PENDING_MIRROR)
    assert step(one, END) is K.WAIT
    assert step(one, END + int(PATIENCE_S * 1000)) is K.STOP


@pytest.mark.parametrize("state", [S.PENDING_SETUP_FOR_RESTORE, S.PENDING_RESTORE_MIRROR])
def test_a_restore_is_not_disturbed(state: MirrorState) -> None:
    assert step(record(state, Undo.OVER, reverse=True), END) is K.DONE


def test_from_any_interrupted_step_it_ends_stopped() -> None:
    """Only the record is carried from one look to the next, as after a kill at each step."""
    one, taken = record(S.ACTIVE, Undo.OPEN, reverse=True, restore_configs={"retention.ms": "1"}), []
    while (kind := step(one, END)) is not K.DONE:
        taken.append(kind)
        assert len(taken) < 9
        match kind:
            case K.MARK:
                one = replace(one, cutover=replace(one.cutover, undo=Undo.OVER))
            case K.PAUSE:
                one = apply(MirrorOperation.PAUSE, one, END)
            case K.RESTORE_CONFIGS:
                one = replace(one, restore_configs={})
            case K.STOP:
                one = apply(MirrorOperation.FAILOVER, one, END)
    assert taken == [K.MARK, K.PAUSE, K.RESTORE_CONFIGS, K.STOP]
    assert (one.state, one.is_reverse, one.cutover.undo) == (S.STOPPED, False, Undo.OVER)


@pytest.mark.parametrize(
    ("kind", "one", "now_ms"),
    [
        (K.START, record(S.ACTIVE), AT),
        (K.START, record(undo=Undo.OPEN), AT),
        (K.START, record(cutover={"not_mirrored": (3,)}), AT),
        (K.MARK, record(S.ACTIVE, Undo.OPEN, reverse=True), END - 1),
        (K.STOP, record(S.ACTIVE, Undo.OPEN, reverse=True), END),
        (K.STOP, record(S.ACTIVE, reverse=True), END),
        (K.STOP, record(S.PENDING_STOPPED, Undo.OVER, reverse=True), END),
        (K.RESTORE_CONFIGS, record(S.ACTIVE, Undo.OVER, reverse=True), END),
        (K.PAUSE, record(S.ACTIVE, Undo.OVER, reverse=True, deletion=Deletion.TOPIC), END),
    ],
)
def test_the_second_opinion(kind: UndoStepKind, one: MirrorRecord, now_ms: int) -> None:
    with pytest.raises(UndoViolated, match="orders"):
        check_step(UndoSnapshot(record=one, now_ms=now_ms), UndoStep(kind))
