"""Sums over the processes of a gateway, while some are silent, or were started again."""

from __future__ import annotations

from gateway.telemetry.counted_before import CountedBefore, CountedSince, Told
from gateway.telemetry.sum_of_processes import summed


def text(**counts: float) -> str:
    """A counter with a label, and a gauge."""
    lines = "".join(f'c_total{{of="{label}"}} {count}\n' for label, count in counts.items())
    return f"# HELP c_total Ever.\n# TYPE c_total counter\n{lines}# HELP g Now.\n# TYPE g gauge\ng 1.0\n"


def samples(before: CountedBefore, own: str, told: dict[str, Told]) -> dict[str, float]:
    texts = [own, *(one.text for one in told.values()), *before.beside(own, told)]
    lines = [line.rpartition(" ") for line in summed(texts).splitlines() if not line.startswith("#")]
    return {key: float(value) for key, _, value in lines}


A, B = 'c_total{of="a"}', 'c_total{of="b"}'


def test_sums_do_not_fall_however_often_one_is_started_again() -> None:
    before, own = CountedBefore(), text(a=1)
    seen = [
        samples(before, own, told)
        for told in (
            {"w": Told("1", text(a=10))},
            {},
            {"w": Told("2", text(a=2))},
            {"w": Told("2", text(a=20))},  # above what the one before it had counted
            {"w": Told("3", text(a=30))},  # its end was never noticed
            {},
        )
    ]
    assert [one[A] for one in seen] == [11, 11, 13, 31, 61, 61]
    assert [one["g"] for one in seen] == [2, 1, 2, 2, 2, 1], "a gauge is of those that are there"


def test_what_nobody_counts_any_more_is_not_kept() -> None:
    before, own = CountedBefore(), text(a=1)
    samples(before, own, {"w": Told("1", text(a=10, b=5))})
    assert samples(before, own, {"w": Told("2", text(a=1))}) == {A: 12, "g": 2}
    found = samples(before, own, {"w": Told("2", text(a=1, b=3))})
    assert found[B] == 3, "it begins anew, and so does its rate"
    for process in range(3, 50):
        samples(before, own, {"w": Told(str(process), text(**{f"x{process}": 1}))})
    assert "x4" not in before.beside(own, {})[-1]


def test_a_label_that_another_process_counts_is_kept() -> None:
    before, own = CountedBefore(), text(a=1, b=1)
    samples(before, own, {"w": Told("1", text(b=5))})
    assert samples(before, own, {"w": Told("2", text(a=1))})[B] == 6


def numbers(said: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in said.splitlines() if not line.startswith("#")]
    return {key: float(value) for key, _, value in lines}


def test_a_process_that_was_never_asked_tells_all_that_it_has_counted() -> None:
    since = CountedSince()
    assert since.told("p1", text(a=5)) == text(a=5)
    assert since.told("p1", text(a=7)) == text(a=7)


def test_the_next_one_who_asks_is_told_what_was_counted_since_the_one_before_it_asked_last() -> None:
    since = CountedSince()
    for count in (5, 7):
        since.told("p1", text(a=count))
    assert numbers(since.told("p2", text(a=8, b=2))) == {A: 1, B: 2, "g": 1}
    assert numbers(since.told("p2", text(a=9, b=2))) == {A: 2, B: 2, "g": 1}
    assert numbers(since.told("p3", text(a=10, b=2))) == {A: 1, B: 0, "g": 1}


def test_a_label_that_begins_anew_counts_whole() -> None:
    """As of a link that is deleted and made again."""
    since = CountedSince()
    since.told("p1", text(a=5, b=5))
    assert numbers(since.told("p2", text(a=6, b=1))) == {A: 1, B: 1, "g": 1}
    assert numbers(since.told("p2", text(a=6, b=7))) == {A: 1, B: 7, "g": 1}
    assert numbers(since.told("p2", text(b=8))) == {B: 8, "g": 1}
    assert numbers(since.told("p2", text(a=9, b=8))) == {A: 9, B: 8, "g": 1}


def test_who_does_not_say_who_it_is_is_told_all() -> None:
    """A first process of an older version, while they are replaced."""
    since = CountedSince()
    since.told("p1", text(a=5))
    assert since.told("", text(a=6)) == text(a=6)
    assert numbers(since.told("p1", text(a=7)))[A] == 7


def test_what_is_told_alike_of_each_process_is_no_count_of_one() -> None:
    name = "lockgate_state_topic_losses_total"
    losses = f"# HELP {name} Losses.\n# TYPE {name} counter\n{name} 1.0\n"
    since = CountedSince()
    since.told("p1", losses)
    assert since.told("p2", losses) == losses
