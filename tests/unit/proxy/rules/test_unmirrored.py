"""Topics that are on a source and not mirrored: told once per topic and minute."""

from __future__ import annotations

from gateway.proxy.rules.unmirrored import RECENT_S, SAY_EVERY_S, Unmirrored


def test_it_is_told_once_per_topic_and_minute_with_what_was_left_out() -> None:
    asked = Unmirrored()
    assert asked.ask("early", "west", "a", 0.0) == 0
    assert [asked.ask("early", "west", "a", 0.3 * turn) for turn in range(1, 10)] == [None] * 9
    assert asked.ask("other", "west", "a", 3.0) == 0
    assert asked.ask("early", "west", "b", SAY_EVERY_S) == 9
    assert asked.asked == {"early": 11, "other": 1}


def test_who_asked_last_is_known_for_a_while() -> None:
    asked = Unmirrored()
    asked.ask("early", "west", "a", 0.0)
    asked.ask("early", "west", "b", 1.0)
    assert asked.recent(RECENT_S) == {"early": ("west", "b")}
    assert asked.recent(RECENT_S + 1.0) == {}


def test_only_the_latest_are_kept() -> None:
    asked = Unmirrored()
    for turn in range(1000):
        asked.ask(f"t{turn}", "west", "a", 0.0)
    assert len(asked.recent(0.0)) == 256
    assert asked.ask("t0", "west", "a", 1.0) == 0
