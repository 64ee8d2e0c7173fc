"""Groups that change sides with topics: the step from every state, also from those that an interruption leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.cutover.promote.rules import groups
from gateway.cutover.promote.rules.checks import InvariantViolated, check_step
from gateway.cutover.promote.rules.promote import next_step
from gateway.cutover.promote.rules.snapshot import (
    CopyReading,
    EndReading,
    PromoteLimits,
    PromoteSnapshot,
    PromoteStep,
    StepKind,
    TopicSnapshot,
    observe,
)
from gateway.cutover.write_pause.interface import PauseAck
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.groups.rules.moves import GroupMove
from gateway.mirror.rules.copy_ends import CopyEnds
from gateway.state.records import MirrorState

K = StepKind
NOW = 100.0
LIMITS = PromoteLimits(lag_threshold=10, pause_timeout_s=5.0, grace_s=0.01, unknown_grace_s=2.0)
AT = {("t", 0): (7, "m")}
READY = GroupMove(group="g", looked_at=NOW, locked=True, offsets=AT, asked_at=NOW - 0.1, meant=AT, held=AT, seen_at=NOW)


def topic(**changes: object) -> TopicSnapshot:
    """Paused, drained, stopped, and read: one of a set that may cut over."""
    reading = EndReading(NOW - 0.5, NOW - 0.5, (9,), (9,), (9,), 1, (9,), ())
    drain = observe(observe(None, reading, NOW - 1), replace(reading, asked=NOW - 0.3, answered=NOW - 0.3), NOW - 1)
    made = TopicSnapshot(
        topic="t",
        state=MirrorState.PENDING_STOPPED,
        epoch=3,
        marked=True,
        phases={"a": WritePhase.PAUSED},
        lag=0,
        acks={"a": PauseAck("a", "t", 3, 0, WritePhase.PAUSED, frozenset("g"))},
        acked_at=NOW - 1,
        drain=drain,
        positions=(9,),
        partitions=1,
        stopped=True,
        handed=CopyEnds((9,), (9,), ((),)),
        copy=CopyReading((9,), (9,)),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def snapshot(group: GroupMove = READY, *, paused: bool = True, of: TopicSnapshot | None = None) -> PromoteSnapshot:
    found = topic() if of is None else of
    if not paused:
        found = replace(found, phases={}, acks={}, drain=None, stopped=False, handed=None, copy=None)
    return PromoteSnapshot(
        now=NOW,
        gateways=frozenset("a"),
        topics=(found,),
        paused_at=NOW - 1.5 if paused else None,
        groups=(group,),
        groups_since=NOW - 5,
    )


def step(found: PromoteSnapshot) -> PromoteStep:
    return next_step(found, LIMITS)


def before(group: GroupMove, **changes: object) -> PromoteStep:
    return step(replace(snapshot(group, paused=False), **changes))  # type: ignore[arg-type]


FRESH = GroupMove(group="g")


def test_before_the_pause_nobody_may_be_left_on_the_source() -> None:
    assert before(FRESH).kind is K.LOOK_AT_GROUPS
    waits = replace(FRESH, looked_at=NOW, waits="the group still has 2 member(s) on the source")
    assert before(waits) == PromoteStep(K.LOOK_AT_GROUPS, waits.waits, 0.2)
    assert before(replace(FRESH, looked_at=NOW)).kind is K.HOLD_GROUPS
    assert before(replace(FRESH, looked_at=NOW, locked=True)).kind is K.PAUSE_WRITES
    assert before(replace(FRESH, looked_at=NOW - 3, locked=True)).kind is K.LOOK_AT_GROUPS


def test_members_on_the_source_are_waited_for_ten_minutes_at_most() -> None:
    waits = replace(FRESH, looked_at=NOW, waits="2 members")
    assert before(waits, groups_since=NOW - groups.GROUPS_S).kind is K.MARK_ACTIVE
    assert before(waits, groups_since=NOW - groups.GROUPS_S).reason == "after 600 s 2 members"
    stuck = before(replace(FRESH, looked_at=NOW), group_error="gateway 'b' is lost", groups_since=NOW - 700)
    assert stuck == PromoteStep(K.MARK_ACTIVE, "after 600 s gateway 'b' is lost")


def test_what_can_never_come_right_ends_it_before_the_pause() -> None:
    assert before(replace(FRESH, trouble="it is promoted already")).kind is K.MARK_ACTIVE


def test_the_steps_under_the_pause_in_their_order() -> None:
    held = replace(READY, offsets=None, meant=None, held=None, seen_at=None)
    assert step(snapshot(held)).kind is K.READ_GROUPS
    assert step(snapshot(replace(held, home=True))).kind is K.SHUT_GATES
    assert step(snapshot(replace(held, home=True, shut=True))).kind is K.READ_GROUPS
    assert step(snapshot(replace(held, offsets=AT))).kind is K.COMMIT_GROUPS
    assert step(snapshot(replace(held, offsets=AT, meant=AT))).kind is K.CHECK_GROUPS
    assert step(snapshot(replace(READY, seen_at=NOW - 0.6))).kind is K.CHECK_GROUPS
    assert step(snapshot()).kind is K.PERSIST_STOPPED


def test_topics_come_first_so_that_no_offset_is_read_before_the_last_write() -> None:
    unread = replace(READY, offsets=None, meant=None, held=None, seen_at=None)
    assert step(snapshot(unread, of=topic(stopped=False, handed=None, copy=None))).kind is K.STOP_MIRROR
    assert step(snapshot(unread, of=topic(copy=None))).kind is K.READ_COPY


def test_an_empty_group_changes_sides_too() -> None:
    assert step(snapshot(replace(READY, offsets={}, meant={}, held={}))).kind is K.PERSIST_STOPPED


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (replace(READY, waits="1 member"), "under the write pause: 1 member"),
        (replace(READY, trouble="deleted"), "deleted"),
        (replace(READY, held={}), "group 'g': the target holds nothing for t-0, committed was 7 with 'm'"),
        (replace(READY, held={("t", 0): (7, "x")}), "group 'g': the target holds 7 with metadata 'x' for t-0"),
        (replace(READY, home=True, shut=True, held={("t", 0): (6, "m")}), "group 'g': the source holds 6"),
    ],
)
def test_trouble_under_the_pause_goes_back(group: GroupMove, reason: str) -> None:
    found = step(snapshot(group))
    assert found.kind is K.RESUME_WRITES
    assert found.reason.startswith(reason)


def test_a_gateway_that_holds_no_groups_ends_it() -> None:
    older = topic(acks={"a": PauseAck("a", "t", 3, 0, WritePhase.PAUSED)})
    found = step(snapshot(of=older))
    assert found.kind is K.RESUME_WRITES
    assert found.reason == (
        "gateway 'a' does not hold group 'g' with t: it is of an older version; upgrade every gateway first, or "
        "promote without groups"
    )


def test_a_gateway_lost_under_the_pause_ends_it() -> None:
    assert step(replace(snapshot(), departed=1)).kind is K.RESUME_WRITES


def test_a_step_that_fails_is_tried_again_until_the_pause_is_over() -> None:
    held = replace(READY, offsets=None, meant=None, held=None, seen_at=None)
    again = step(replace(snapshot(held), group_error="the target does not answer"))
    assert (again.kind, again.reason) == (K.READ_GROUPS, "the target does not answer")
    assert again.delay_s > 0
    late = step(replace(snapshot(held), group_error="the target does not answer", paused_at=NOW - 5))
    assert late == PromoteStep(K.RESUME_WRITES, "not done 5 s after the write pause: the target does not answer")


def test_once_persisting_was_tried_nothing_is_taken_back() -> None:
    found = replace(snapshot(replace(READY, trouble="changed")), committing=True)
    assert step(found).kind is K.PERSIST_STOPPED


def test_behind_the_cutover_groups_need_nothing() -> None:
    stopped = topic(state=MirrorState.STOPPED, phases={"a": WritePhase.SWITCHED})
    gone = replace(READY, trouble="it is promoted already")
    assert step(snapshot(gone, of=stopped)).kind is K.PUBLISH_SWITCHED
    assert step(replace(snapshot(gone, of=stopped), paused_at=None)).kind is K.DONE


@pytest.mark.parametrize("left", [MirrorState.ACTIVE, MirrorState.PENDING_STOPPED])
@pytest.mark.parametrize("home", [False, True])
def test_a_new_leader_begins_anew(left: MirrorState, home: bool) -> None:
    """Whatever the one before had done: it marks the set again, and knows nothing of its groups."""
    found = replace(snapshot(replace(FRESH, home=home), paused=False), topics=(TopicSnapshot(topic="t", state=left),))
    assert step(found).kind is K.MARK_PENDING


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"locked": False}, "a hold by all"),
        ({"home": True, "shut": False}, "a hold by all"),
        ({"asked_at": NOW - 2}, "younger than the acknowledgements"),
        ({"offsets": None}, "younger than the acknowledgements"),
        ({"meant": {}}, "its offsets on the other cluster"),
        ({"held": {("t", 0): (8, "m")}}, "the very offsets"),
        ({"held": {("t", 0): (7, "")}}, "the very offsets"),
        ({"seen_at": NOW - 1.1}, "a last look"),
        ({"seen_at": None}, "a last look"),
        ({"waits": "a member"}, "a way: a member"),
    ],
)
def test_the_second_opinion_refuses(changes: dict[str, object], missing: str) -> None:
    found = snapshot(replace(READY, **changes))  # type: ignore[arg-type]
    with pytest.raises(InvariantViolated, match=missing):
        check_step(found, PromoteStep(K.PERSIST_STOPPED), LIMITS)


def test_the_second_opinion_wants_every_gateway_to_hold_them() -> None:
    older = topic(acks={"a": PauseAck("a", "t", 3, 0, WritePhase.PAUSED)})
    with pytest.raises(InvariantViolated, match="not every gateway holds"):
        check_step(snapshot(of=older), PromoteStep(K.PERSIST_STOPPED), LIMITS)
