from hypothesis import given
from hypothesis import strategies as st

from gateway.jobs.translate.commit_plan import NOTHING, DesiredCommit, Outcome, outcome, to_commit, withheld

KEY = ("t", 0)


def test_nothing_is_rewound() -> None:
    wanted = {("t", index): DesiredCommit(at, "m") for index, at in enumerate([5, 6, 7, None])}

    assert to_commit(wanted, {("t", 0): 6, ("t", 1): 6, ("t", 2): 6}) == {("t", 2): (7, "m")}
    assert to_commit(wanted, {}) == {("t", 0): (5, "m"), ("t", 1): (6, "m"), ("t", 2): (7, "m")}


def test_outcomes() -> None:
    assert outcome(DesiredCommit(None, ""), NOTHING, NOTHING) is Outcome.NOT_MIRRORED
    assert outcome(DesiredCommit(5, ""), 6, 6) is Outcome.AHEAD
    assert outcome(DesiredCommit(5, ""), 6, 5) is Outcome.FAILED
    assert outcome(DesiredCommit(5, ""), 5, 5) is Outcome.UNCHANGED
    assert outcome(DesiredCommit(5, ""), NOTHING, 5) is Outcome.COMMITTED
    assert outcome(DesiredCommit(5, ""), NOTHING, NOTHING) is Outcome.FAILED


@given(st.integers(-1, 20), st.integers(0, 20))
def test_a_second_commit_finds_nothing_to_do(held: int, at: int) -> None:
    wanted = {KEY: DesiredCommit(at, "")}
    first = to_commit(wanted, {KEY: held})
    after = first.get(KEY, (held, ""))[0]

    assert after >= held
    assert outcome(wanted[KEY], held, after) is not Outcome.FAILED
    assert to_commit(wanted, {KEY: after}) == {}


def test_a_group_is_carried_whole_or_not_at_all() -> None:
    exact, not_exact, none = (
        DesiredCommit(5, ""),
        DesiredCommit(7, "", exact=False, why="log_start"),
        DesiredCommit(None, "", False, "why"),
    )
    wanted = {("t", 0): exact, ("t", 1): not_exact}

    assert withheld({("t", 0): exact}, inexact=False) is None
    assert withheld(wanted, inexact=True) is None
    assert withheld(wanted, inexact=False) == {
        ("t", 0): (Outcome.REFUSED, "t-1 of the same group is not exact"),
        ("t", 1): (Outcome.NOT_EXACT, "log_start"),
    }
    assert withheld({("t", 0): none}, inexact=True) == {("t", 0): (Outcome.NOT_MIRRORED, "why")}
