"""Groups that nobody knows: asked about once, some at a time, in the order in which they came, and not without end."""

from __future__ import annotations

import pytest

from gateway.groups.gate.rules import questions
from gateway.groups.gate.rules.questions import Questions


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Questions:
    """Two at a time, and room for two more."""
    monkeypatch.setattr(questions, "AT_A_TIME", 2)
    monkeypatch.setattr(questions, "AT_MOST", 2)
    return Questions()


def test_a_group_is_asked_about_once(asked: Questions) -> None:
    assert [asked.add("a"), asked.add("a")] == [True, False]
    asked.known("a")
    assert asked.add("a")


def test_the_others_wait_for_their_turn(asked: Questions) -> None:
    assert [asked.add(group) for group in ("a", "b", "c", "d")] == [True, True, False, False]
    assert sorted(asked.under_way()) == ["a", "b"]
    assert asked.next() is None
    asked.known("a")
    assert asked.next() == "c"
    assert not asked.add("c")
    assert asked.next() is None
    asked.known("b")
    assert (asked.next(), asked.next()) == ("d", None)


def test_who_finds_no_room_may_come_again(asked: Questions) -> None:
    for group in ("a", "b", "c", "d", "e"):
        asked.add(group)
    for group in ("a", "b"):
        asked.known(group)
    assert [asked.next(), asked.next(), asked.next()] == ["c", "d", None]  # of `e` nothing was kept
    asked.known("c")
    assert asked.add("e")


def test_one_that_is_known_by_other_means_has_no_turn(asked: Questions) -> None:
    for group in ("a", "b", "c"):
        asked.add(group)
    asked.known("c")
    asked.known("a")
    assert asked.next() is None


def test_nothing_is_left_when_nobody_needs_an_answer(asked: Questions) -> None:
    for group in ("a", "b", "c"):
        asked.add(group)
    asked.clear()
    assert (asked.under_way(), asked.next()) == ([], None)
    assert asked.add("c")
