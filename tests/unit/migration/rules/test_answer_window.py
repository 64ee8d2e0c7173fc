"""What a process has seen of answers in the last minute."""

from __future__ import annotations

from gateway.migration.rules.answer_window import BUCKET_S, AnswerWindow
from gateway.migration.rules.client_errors import ERRORS, TOPIC, WINDOW_S, AnswerCount, Failure, Name
from protocol.errors import ErrorCode

X, Y = Name(TOPIC, "x"), Name(TOPIC, "y")
DENIED, LARGE = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), int(ErrorCode.MESSAGE_TOO_LARGE)


def sums(window: AnswerWindow, now: float, seconds: float = WINDOW_S) -> AnswerCount:
    return window.sums({X}, now, seconds).get(X, AnswerCount())


def test_answers_are_counted_by_name_with_what_they_stand_for() -> None:
    window = AnswerWindow()
    window.add([(X, 0), (Y, DENIED)], 1, "ann", 0.0)
    window.add([(X, LARGE)], 10, "bob", 1.0)
    window.add([(X, LARGE)], 10, None, 7.0)  # in another bucket
    window.add([(X, DENIED)], 3, "eve", 7.0)
    assert sums(window, 8.0) == AnswerCount(24, 23, 4, 3, (Failure(LARGE, 20, "bob"), Failure(DENIED, 3, "eve")))
    assert window.sums({X, Y}, 8.0, WINDOW_S)[Y] == AnswerCount(1, 1, 1, 1, (Failure(DENIED, 1, "ann"),))
    assert window.sums(set(), 8.0, WINDOW_S) == {}


def test_what_is_older_than_the_window_counts_no_more() -> None:
    window = AnswerWindow()
    window.add([(X, DENIED)], 1, "ann", 0.0)
    window.add([(X, 0)], 1, "ann", 30.0)
    assert sums(window, WINDOW_S).failures == 1
    assert sums(window, WINDOW_S + 0.1) == AnswerCount(1, 0, 1, 0)
    assert sums(window, 2 * WINDOW_S) == AnswerCount()


def test_what_was_answered_before_counts_no_more_when_somebody_has_gone_on() -> None:
    window = AnswerWindow()
    window.add([(X, DENIED)], 1, "ann", 100.0)
    window.add([(X, 0)], 1, "ann", 100.0 + BUCKET_S)
    now = 110.0
    assert sums(window, now, seconds=now - 100.5) == AnswerCount(1, 0, 1, 0)
    assert sums(window, now, seconds=now - 99.5) == AnswerCount(2, 1, 2, 1, (Failure(DENIED, 1, "ann"),))


def test_it_is_bounded() -> None:
    window = AnswerWindow()
    for second in range(600):
        for code in range(1, 100):
            window.add([(X, 1_000 + code)], 1, "c" * 10_000, float(second))
    assert len(window._buckets) <= WINDOW_S / BUCKET_S + 1
    assert {len(seen.errors) for _, bucket in window._buckets for seen in bucket.values()} == {ERRORS}
    found = sums(window, 600.0)
    assert found.failures > 50 * 99
    assert len(found.errors) == ERRORS
    assert max(len(one.client) for one in found.errors) == 100


def test_what_is_watched_no_more_is_forgotten() -> None:
    window = AnswerWindow()
    window.add([(X, 0), (Y, 0)], 1, "", 0.0)
    window.keep({Y})
    assert window.sums({X, Y}, 1.0, WINDOW_S) == {Y: AnswerCount(1, 0, 1, 0)}
