from __future__ import annotations

from tests.simulation.story import Story, first_difference


def told(*what: str) -> Story:
    times = iter(range(100))
    story = Story(lambda: float(next(times)))
    for one in what:
        story.tell("gw-0", one)
    return story


def test_the_same_story_has_the_same_digest():
    assert told("a", "b").digest() == told("a", "b").digest() != told("a", "c").digest()


def test_the_first_difference_is_shown():
    assert first_difference(told("a", "b").lines, told("a", "b").lines) == ""
    assert "line 1" in first_difference(told("a", "b").lines, told("a", "c").lines)
    assert "goes on with" in first_difference(told("a", "b").lines, told("a").lines)
