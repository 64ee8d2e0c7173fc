"""How long it has still to go."""

from __future__ import annotations

from gateway.cli.rules.pace import Pace


def test_nobody_can_tell_at_once() -> None:
    pace = Pace()
    assert pace.to_go_s is None
    pace.seen(0.0, 100)
    assert (pace.per_s, pace.to_go_s) == (None, None)
    pace.seen(0.0, 90)
    assert pace.to_go_s is None


def test_by_how_fast_it_becomes_less() -> None:
    pace = Pace()
    pace.seen(0.0, 100)
    pace.seen(2.0, 80)
    assert (pace.per_s, pace.to_go_s) == (10.0, 8.0)


def test_what_was_long_ago_does_not_count() -> None:
    pace = Pace()
    for second in range(60):
        pace.seen(float(second), 1000.0 - second)
    for second in range(60, 100):
        pace.seen(float(second), 941.0 - 10 * (second - 59))
    assert pace.per_s == 10.0


def test_what_grows_has_no_end() -> None:
    pace = Pace()
    pace.seen(0.0, 10)
    pace.seen(1.0, 20)
    assert (pace.per_s, pace.to_go_s) == (-10.0, None)
