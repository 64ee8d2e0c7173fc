"""How long nobody must commit: by how long somebody was silent between two commits."""

from __future__ import annotations

import pytest

from gateway.groups.rules.silences import KEPT, QUIET_MOST_S, Silences


def test_until_a_commit_was_seen_it_is_the_least() -> None:
    assert Silences().quiet_s(15.0) == 15.0


@pytest.mark.parametrize(("silence_s", "quiet_s"), [(5.0, 15.0), (40.0, 80.0), (600.0, 1200.0), (5000.0, QUIET_MOST_S)])
def test_it_is_twice_the_longest_silence_and_has_bounds(silence_s: float, quiet_s: float) -> None:
    assert Silences().ended(1.0).ended(silence_s).ended(2.0).quiet_s(15.0) == quiet_s


@pytest.mark.parametrize(
    ("silence_s", "stored_s", "to_store_s"),
    [(5.0, 0, 0), (7.5, 0, 8), (40.2, 0, 41), (40.2, 33, 33), (40.2, 32, 41), (2.0, 41, 41), (5000.0, 0, 600)],
)
def test_the_record_is_written_when_it_says_much_less(silence_s: float, stored_s: int, to_store_s: int) -> None:
    assert Silences().ended(silence_s).to_store(stored_s, 15.0) == to_store_s


def test_a_silence_of_long_ago_is_forgotten() -> None:
    found = Silences().ended(300.0)
    for _ in range(KEPT):
        found = found.ended(5.0)
    assert found.quiet_s(15.0) == 15.0
    assert len(found.last) == KEPT
