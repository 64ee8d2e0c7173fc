"""What is known of a group is as new as its question, not as its answer."""

from __future__ import annotations

from gateway.groups.progress import GroupProgress
from gateway.state.records import SourceOffset


def at(offset: int) -> tuple[SourceOffset, ...]:
    return (SourceOffset("t", 0, offset, ""),)


def test_an_answer_to_an_earlier_question_does_not_count() -> None:
    progress = GroupProgress()
    progress.remember(at(5), 10.0)
    progress.remember(at(3), 9.0)
    assert (progress.known, progress.known_at) == (at(5), 10.0)
    progress.remember(at(6), 10.0)
    assert (progress.known, progress.known_at) == (at(6), 10.0)
