"""Holds of writes: each belongs to one operation, and a topic is free when none is left."""

from __future__ import annotations

from gateway.domain.write_holds import Hold, HoldKind, WriteHolds

PROMOTE = Hold("t", 1, 7, HoldKind.PROMOTE)
FAILOVER = Hold("t", 2, 7, HoldKind.FAILOVER)


def test_the_end_of_one_operation_does_not_end_another_one() -> None:
    holds = WriteHolds()
    holds.begin(PROMOTE)
    holds.begin(FAILOVER)
    holds.commanded(Hold("t", 9, 3))
    for over in (FAILOVER, PROMOTE):
        holds.end(over)
        assert holds.topics == {"t"}
    holds.command_over("t")
    assert holds.topics == frozenset()


def test_the_same_operation_ends_however_it_was_heard_of() -> None:
    """A leader's own assignment names its fences, to itself too."""
    holds = WriteHolds()
    holds.begin(PROMOTE)
    holds.commanded(Hold("t", 1, 7))
    holds.end(PROMOTE)
    assert holds.topics == frozenset()


def test_the_end_of_a_command_leaves_own_operations() -> None:
    holds = WriteHolds()
    holds.begin(PROMOTE)
    holds.commanded(Hold("t", 1, 6))
    holds.command_over("t")
    assert holds.topics == {"t"}


def test_no_epoch_is_given_out_twice() -> None:
    """A failover that came to nothing marks no record; what comes late of it must not end the next promote's hold."""
    holds = WriteHolds()
    assert holds.next_epoch("t", 4) == 5
    holds.begin(Hold("t", 5, 7, HoldKind.FAILOVER))
    holds.end(Hold("t", 5, 7))
    assert holds.next_epoch("t", 4) == 6
    assert holds.next_epoch("t", 8) == 9
    assert holds.next_epoch("u", 0) == 1


def test_what_a_term_leaves_is_held_until_it_is_decided() -> None:
    holds = WriteHolds()
    holds.begin(PROMOTE)
    holds.term_over()
    assert holds.own == {}
    assert holds.topics == {"t"}
    holds.end(PROMOTE)  # an operation of a term that is over ends nothing any more
    assert holds.topics == {"t"}
    assert holds.decided() == {"t"}
    assert holds.topics == frozenset()


def test_the_youngest_operation_is_the_one_that_assignments_name() -> None:
    holds = WriteHolds()
    holds.begin(FAILOVER)
    holds.begin(PROMOTE)
    assert holds.own == {"t": 2}


def test_a_deleted_topic_is_held_by_nobody() -> None:
    holds = WriteHolds()
    holds.begin(PROMOTE)
    holds.term_over()
    holds.begin(FAILOVER)
    holds.commanded(Hold("t", 3, 8))
    holds.begin(Hold("u", 1, 7))
    holds.forget(["t"])
    assert holds.topics == {"u"}
