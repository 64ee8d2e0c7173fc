"""Handing partitions over: who waits for whom, and that none is nobody's or everybody's for good."""

from __future__ import annotations

from gateway.fleet.rules.ownership_transfer import GIVEN_S, LINGER_S, OwnershipTransfer
from gateway.mirror.rules.period import MirrorPartition

A, B, C = (MirrorPartition("l", "t", index) for index in range(3))
ALL = frozenset((A, B, C))


def test_what_nobody_has_runs_at_once() -> None:
    one = OwnershipTransfer()
    assert one.want(ALL, {}, 0.0) == {}
    assert one.here == ALL


def test_what_another_has_is_asked_for_once_and_runs_when_it_was_released() -> None:
    one = OwnershipTransfer()
    assert one.want(ALL, {A: "other", B: "other"}, 0.0) == {"other": {A, B}}
    assert one.here == {C}
    assert one.want(ALL, {A: "other", B: "other"}, 0.1) == {}
    one.answered([A])
    assert one.here == {A, C}
    assert one.waiting == {B}


def test_what_is_not_wanted_any_more_when_the_answer_comes_does_not_run() -> None:
    one = OwnershipTransfer()
    one.want(ALL, {A: "other"}, 0.0)
    one.want(frozenset((B, C)), {}, 0.1)
    one.answered([A])
    assert one.here == {B, C}


def test_what_goes_elsewhere_runs_on_until_it_is_asked_for() -> None:
    one = OwnershipTransfer()
    one.want(ALL, {}, 0.0)
    assert one.want(frozenset((A,)), {}, 1.0) == {}
    assert one.here == ALL
    assert one.give([B], "other", 1.1) == {B}
    assert one.here == {A, C}


def test_what_nobody_asks_for_ends_after_a_while() -> None:
    one = OwnershipTransfer()
    one.want(ALL, {}, 0.0)
    one.want(frozenset((A,)), {}, 1.0)
    assert not one.due(1.0 + LINGER_S - 0.1)
    assert one.due(1.0 + LINGER_S)
    one.want(frozenset((A,)), {}, 1.0 + LINGER_S)
    assert one.here == {A}


def test_it_comes_back_before_it_was_asked_for() -> None:
    one = OwnershipTransfer()
    one.want(ALL, {}, 0.0)
    one.want(frozenset((A,)), {}, 1.0)
    one.want(ALL, {}, 2.0)
    one.want(ALL, {}, 1.0 + LINGER_S)
    assert one.here == ALL


def test_what_was_given_stays_away_although_the_old_assignment_still_names_this_gateway() -> None:
    one = OwnershipTransfer()
    one.want(ALL, {}, 0.0)
    one.give([A], "other", 1.0)
    one.want(ALL, {}, 1.0 + GIVEN_S - 0.1)
    assert one.here == {B, C}
    assert one.due(1.0 + GIVEN_S)
    one.want(ALL, {}, 1.0 + GIVEN_S)  # whoever asked has not taken it: the assignment counts
    assert one.here == ALL


def test_a_new_assignment_decides_about_what_was_given() -> None:
    one = OwnershipTransfer()
    one.want(ALL, {}, 0.0)
    one.give([A], "other", 1.0)
    one.reassigned()
    one.want(ALL, {}, 1.1)
    assert one.here == ALL


def test_what_must_stop_stops_at_once_and_comes_back_when_it_may() -> None:
    one = OwnershipTransfer()
    one.want(ALL, {}, 0.0)
    one.want(ALL, {}, 1.0, at_once=[A])
    assert one.here == {B, C}
    one.want(ALL, {}, 2.0)
    assert one.here == ALL


def test_asked_for_what_is_only_on_its_way_here() -> None:
    one = OwnershipTransfer()
    one.want(ALL, {A: "other"}, 0.0)
    assert one.give([A], "other", 0.1) == frozenset()
    one.answered([A])
    assert one.here == {B, C}


def test_what_was_given_comes_back_when_whoever_took_it_falls_silent() -> None:
    one = OwnershipTransfer()
    one.want(ALL, {}, 0.0)
    one.give([A], "other", 1.0)
    one.want(ALL, {}, 1.1, silent=["another"])
    assert one.here == {B, C}
    one.want(ALL, {}, 1.2, silent=["other"])
    assert one.here == ALL


def test_who_is_asked_for_what_it_never_had_may_take_it_over_later() -> None:
    """A gateway that is new asks everybody; when it dies a moment later the others take over."""
    one = OwnershipTransfer()
    one.want(frozenset((A,)), {}, 0.0)
    assert one.give([B], "new", 1.0) == frozenset()
    one.want(frozenset((A, B)), {}, 1.1)
    assert one.here == {A, B}


def test_what_was_given_comes_back_as_soon_as_it_is_wanted_again() -> None:
    """A promote that was aborted: the leader has taken the topic, and gives it back."""
    one = OwnershipTransfer()
    one.want(ALL, {}, 0.0)
    one.give([A], "other", 1.0)
    one.want(frozenset((B, C)), {}, 1.1)
    assert one.want(ALL, {A: "other"}, 1.2) == {"other": {A}}
    one.answered([A])
    assert one.here == ALL


def test_what_was_given_after_it_was_not_wanted_any_more_comes_back_too() -> None:
    one = OwnershipTransfer()
    one.want(ALL, {}, 0.0)
    one.want(frozenset((B, C)), {}, 1.0)
    assert one.give([A], "other", 1.1) == {A}
    assert one.want(ALL, {A: "other"}, 1.2) == {"other": {A}}


def test_what_is_kept_is_not_given_whoever_asks() -> None:
    one = OwnershipTransfer()
    one.want(ALL, {}, 0.0)
    assert one.give([A, B], "other", 1.0, keep=[A]) == {B}
    assert one.here == {A, C}
    one.want(ALL, {}, 1.1)
    assert one.here == {A, C}
