"""Names of topics that sources are asked about: 500 a second of a client, who waits for the rest, and not for ever."""

from __future__ import annotations

from gateway.proxy.rules.asked_names import _KEPT, A_SECOND, LONGEST_WAIT_S, AskedNames


def test_two_requests_go_at_once_and_the_next_ones_wait() -> None:
    names = AskedNames()
    assert [names.turn("alice", 1_000, 100.0) for _ in range(4)] == [0.0, 0.0, 2.0, 4.0]
    assert names.turn("bob", 1_000, 100.0) == 0.0
    assert names.turn("alice", 1, 104.0) == 1 / A_SECOND


def test_who_would_wait_for_too_long_is_refused_and_owes_nothing_for_it() -> None:
    names = AskedNames()
    found = [names.turn("alice", 1_000, 100.0) for _ in range(100)]
    assert found[:7] == [0.0, 0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert set(found[7:]) == {None}
    assert names.turn("alice", 1_000, 100.0 + LONGEST_WAIT_S + 4.0) == 0.0


def test_a_fixed_number_of_clients_is_remembered() -> None:
    names = AskedNames()
    for number in range(2 * _KEPT):
        names.turn(f"client-{number}", 1, 100.0)
    assert len(names._levels) == _KEPT
