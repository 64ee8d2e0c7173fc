"""Which attempt may append, by what the driver remembers."""

from __future__ import annotations

from gateway.fleet.rules.leases import presumable_after
from gateway.jobs.attempts.book import AttemptRegistry

ONE, TWO = ("orders", 0), ("orders", 1)
LEASE_S = 10.0


def test_a_newer_attempt_waits_until_the_older_ones_lease_is_over() -> None:
    book = AttemptRegistry(LEASE_S)
    assert book.claim(7, [ONE], 0.0)
    book.answered(7, 3.0)

    assert book.claim(9, [ONE], 4.0)

    assert not book.holds(7)
    assert book.holds(9)
    assert book.older(9) == [7]
    assert book.wait_s(9, 4.0) == 3.0 + presumable_after(LEASE_S) - 4.0
    assert book.wait_s(9, 20.0) == 0.0


def test_an_attempt_that_has_ended_is_not_waited_for() -> None:
    book = AttemptRegistry(LEASE_S)
    book.claim(7, [ONE], 0.0)
    book.answered(7, 3.0)
    book.claim(9, [ONE], 4.0)

    book.ended(7)

    assert book.wait_s(9, 4.0) == 0.0


def test_an_older_attempt_that_comes_late_is_refused() -> None:
    book = AttemptRegistry(LEASE_S)
    book.claim(9, [ONE, TWO], 0.0)
    book.ended(9)

    assert not book.claim(7, [TWO], 1.0)
    assert book.claim(10, [TWO], 1.0)


def test_attempts_of_other_partitions_do_not_meet() -> None:
    book = AttemptRegistry(LEASE_S)
    book.claim(7, [ONE], 0.0)
    book.answered(7, 0.0)
    book.claim(8, [TWO], 0.0)

    assert book.holds(7)
    assert book.wait_s(8, 0.0) == 0.0
