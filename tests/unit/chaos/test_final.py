"""The end of a run is waited for as long as something moves."""

from tests.chaos.final import AT_MOST_S, DEADLINE_S, Rest


def test_who_moves_is_waited_for() -> None:
    rest = Rest(0.0)
    assert not any(rest.stuck([f"g is at {at}"], float(at)) for at in range(0, int(AT_MOST_S), 10))
    assert not rest.stuck([], AT_MOST_S)


def test_who_stands_still_is_named() -> None:
    rest, waiting = Rest(0.0), ["g is at 1", "h is at 2"]
    assert not rest.stuck(["g is at 0", "h is at 2"], 0.0)
    assert not rest.stuck(waiting, 100.0)
    assert not rest.stuck(waiting, 100.0 + DEADLINE_S - 1)
    assert rest.stuck(waiting, 100.0 + DEADLINE_S) == "after 220 s of rest, 120 s still: g is at 1 (and 1 more)"


def test_nobody_is_waited_for_without_end() -> None:
    rest = Rest(0.0)
    assert rest.stuck(["g is at 1"], AT_MOST_S).startswith("after 600 s of rest")
