"""Positions, of this gateway's mirrors and of others', and who waits for them."""

from __future__ import annotations

from gateway.mirror.rules.progress import MirrorProgress


def test_a_waiter_is_called_whoever_mirrors_the_partition() -> None:
    progress, called = MirrorProgress(), list[str]()
    progress.when("t", 0, 5, lambda: called.append("here"))
    progress.when("t", 1, 5, lambda: called.append("there"))
    progress.advance("t", 0, 4)
    progress.heard("t", 1, 4)
    assert called == []
    progress.advance("t", 0, 5)
    progress.heard("t", 1, 7)
    assert called == ["here", "there"]


def test_what_is_heard_late_takes_nothing_back() -> None:
    progress = MirrorProgress()
    progress.heard("t", 0, 7)
    progress.heard("t", 0, 5)
    assert progress.position("t", 0) == 7
    progress.advance("t", 0, 6)  # mirrored here now: that is where it stands
    assert progress.position("t", 0) == 6


def test_only_what_is_mirrored_here_counts_as_moved() -> None:
    progress = MirrorProgress()
    progress.advance("t", 0, 1)
    progress.moved = set()
    progress.advance("t", 0, 2)
    progress.heard("t", 1, 2)
    assert progress.moved == {("t", 0)}


def test_whoever_begins_to_wait_is_told_of_unless_it_is_there() -> None:
    progress, waits = MirrorProgress(), list[tuple[str, int]]()
    progress.on_wait = waits.append
    progress.advance("t", 0, 5)
    progress.when("t", 0, 5, lambda: None)
    progress.when("t", 0, 6, lambda: None)
    assert waits == [("t", 0)]


def test_a_wait_ends_when_nothing_more_is_mirrored() -> None:
    progress, called = MirrorProgress(), list[str]()
    progress.when("t", 0, 5, lambda: called.append("near"), lambda: called.append("-near"))
    progress.when("t", 0, 9, lambda: called.append("far"), lambda: called.append("-far"))
    progress.when("t", 0, 7, lambda: called.append("always"))
    progress.when("u", 0, 5, lambda: called.append("other"), lambda: called.append("-other"))
    progress.advance("t", 0, 5)
    progress.end_waits("t")
    assert called == ["near", "-far"]
    progress.advance("t", 0, 9)  # another mirror period's offsets, perhaps
    progress.end_waits("t")
    assert called == ["near", "-far", "always"]


def test_who_waits_for_a_mirror_that_is_gone_is_told_and_for_one_that_begins_anew_not() -> None:
    progress, called = MirrorProgress(), list[str]()
    progress.advance("t", 0, 4)
    progress.when("t", 0, 5, lambda: called.append("reached"), lambda: called.append("ended"))
    progress.begins_anew("t")
    assert (progress.position("t", 0), called) == (None, [])
    progress.forget("t")
    assert called == ["ended"]
