"""Work for strangers: a slice of each turn for all of them, and addresses take turns in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from gateway.proxy.rules.turn_slices import STRANGERS_S, TurnSlices


class Turns:
    """An event loop by hand, whose clock only work moves."""

    def __init__(self) -> None:
        self.now = 7.0
        self.slices = TurnSlices(lambda: self.now, self._soon)
        self.done: list[str] = []
        self._due: list[Callable[[], None]] = []

    def _soon(self, work: Callable[[], None]) -> None:
        self._due.append(work)

    def work(self, name: str) -> None:
        self.now += STRANGERS_S / 4
        self.done.append(name)

    def wait(self, host: str, name: str) -> None:
        self.slices.when_due(host, partial(self.work, name))

    def turn(self) -> list[str]:
        """What is done in the next one."""
        self.done.clear()
        due, self._due = self._due, []
        for each in due:
            each()
        return self.done


def test_a_turn_does_as_much_as_its_slice_and_the_next_one_goes_on() -> None:
    turns = Turns()
    for number in range(1_000):
        turns.wait("10.0.0.1", str(number))
    assert turns.done == ["0", "1", "2", "3"]
    assert turns.slices.is_over
    assert turns.turn() == ["4", "5", "6", "7"]
    rest = 0
    while turns.turn():
        rest += len(turns.done)
        assert len(turns.done) <= 4
    assert rest == 992
    assert not turns._due  # and the loop sleeps


def test_an_address_does_not_stand_behind_all_that_another_one_wants() -> None:
    turns = Turns()
    for number in range(1_000):
        turns.wait("10.0.0.1", str(number))
    turns.wait("10.0.0.2", "a login")
    assert "a login" in turns.turn()


def test_what_cannot_wait_is_done_and_counts() -> None:
    turns = Turns()
    for _ in range(5):
        turns.slices.do(partial(turns.work, "accepted"))
    assert len(turns.done) == 5
    assert turns.slices.is_over
    turns.turn()
    assert not turns.slices.is_over


def test_a_fault_keeps_nobody_waiting() -> None:
    turns = Turns()
    for number in range(4):
        turns.wait("10.0.0.1", str(number))

    def fault() -> None:
        raise LookupError

    turns.slices.when_due("10.0.0.1", fault)
    turns.wait("10.0.0.1", "after it")
    with pytest.raises(LookupError):
        turns.turn()
    assert turns.turn() == ["after it"]
