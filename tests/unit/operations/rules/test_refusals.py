"""What was refused is asked for again later and later, and forgotten when nobody asks for it."""

from __future__ import annotations

from typing import NamedTuple

from gateway.operations.rules.refusals import ERRORS_KEPT, Refusals


class Error(NamedTuple):
    what: str
    at_ms: int = 0


def test_it_is_due_after_one_pause_then_two() -> None:
    refused: Refusals[str, Error] = Refusals()
    assert refused.are_due("a", 0.0)
    refused.add("a", Error("no"), 0.0, 5.0)
    assert not refused.are_due("a", 4.9)
    assert refused.are_due("a", 5.0)
    refused.add("a", Error("no"), 5.0, 5.0)
    assert not refused.are_due("a", 14.9)
    assert refused.are_due("a", 15.0)
    refused.forgive("a")
    assert refused.are_due("a", 5.0)
    assert not len(refused)


def test_only_what_is_asked_for_is_kept_and_the_youngest_errors_are_shown() -> None:
    refused: Refusals[int, Error] = Refusals()
    for number in range(ERRORS_KEPT + 8):
        refused.add(number, Error(str(number), number), 0.0, 1.0)
    assert [error.at_ms for error in refused.youngest()] == list(range(ERRORS_KEPT + 7, 7, -1))
    refused.only({3, 5})
    assert set(refused.keys()) == {3, 5}
    assert [error.what for error in refused.youngest()] == ["5", "3"]
