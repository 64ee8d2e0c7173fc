"""Above the limit nobody is read but one, and so every request becomes whole some day."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.rules.held_requests import HeldRequests

KB = 1_024


class Client:
    """Sends a request in pieces while it is read; a whole one is answered when told."""

    def __init__(self, held: HeldRequests) -> None:
        self.held = held
        self.reading = True
        self.stopped = False  # for another reason
        self.count = 0

    def pause_for_memory(self, paused: bool) -> bool:
        self.reading = not paused
        return self.reading and not self.stopped

    def sends(self, count: int, *, unfinished: bool) -> None:
        self.count += count
        self.held.holds(self, self.count, unfinished=unfinished)

    def answered(self) -> None:
        self.count = 0
        self.held.holds(self, 0, unfinished=False)


def clients(limit: int, count: int) -> tuple[HeldRequests, list[Client]]:
    held = HeldRequests(limit)
    return held, [Client(held) for _ in range(count)]


def test_below_the_limit_everybody_is_read() -> None:
    held, (one, other) = clients(100, 2)
    one.sends(60, unfinished=True)
    other.sends(40, unfinished=False)
    assert (one.reading, other.reading, held.bytes, held.paused) == (True, True, 100, 0)


def test_above_it_who_holds_more_waits_until_there_is_room() -> None:
    held, (one, other) = clients(100, 2)
    one.sends(90, unfinished=False)
    other.sends(20, unfinished=False)
    assert (one.reading, other.reading, held.waiting) == (True, False, 1)
    one.answered()
    assert (other.reading, held.waiting, held.bytes, held.paused) == (True, 0, 20, 1)


def test_one_of_the_halves_goes_on() -> None:
    held, (one, two, three) = clients(100, 3)
    for client in (one, two, three):
        client.sends(60, unfinished=True)
    assert [one.reading, two.reading, three.reading] == [True, True, False]
    one.sends(60, unfinished=True)
    assert [one.reading, two.reading, three.reading] == [False, True, False]
    two.sends(60, unfinished=False)  # whole: the next one may go on
    assert [one.reading, two.reading, three.reading] == [False, False, True]
    assert held.bytes == 300


def test_the_turn_goes_to_nobody_who_would_not_be_read() -> None:
    _, (one, two, three) = clients(100, 3)
    one.sends(110, unfinished=False)
    two.stopped = True
    two.sends(10, unfinished=True)
    three.sends(10, unfinished=True)
    assert [two.reading, three.reading] == [False, True]


def test_who_is_gone_holds_nothing() -> None:
    held, (one, two) = clients(100, 2)
    one.sends(150, unfinished=True)
    two.sends(50, unfinished=True)
    held.ended(one)
    assert (held.bytes, two.reading, held.waiting) == (50, True, 0)
    held.ended(two)
    assert (held.bytes, held.waiting, held._of) == (0, 0, {})


@given(st.data())
def test_every_request_becomes_whole(data: st.DataObject) -> None:
    """Requests of 100 bytes that arrive in pieces of 10 and are answered when whole; the limit is less than one."""
    held, all_of_them = clients(data.draw(st.integers(1, 300)), 5)
    limit = held._limit
    left = dict.fromkeys(all_of_them, 3)
    for _ in range(10_000):
        ready = [client for client in all_of_them if left[client] and client.reading]
        if not any(left.values()):
            break
        assert ready, "all wait for one another"
        client = data.draw(st.sampled_from(ready)) if data is not None else ready[0]
        client.sends(10, unfinished=client.count < 90)
        assert held.bytes <= limit + 100 + 10 * len(all_of_them)
        if client.count == 100:
            left[client] -= 1
            client.answered()
    assert not any(left.values())
    assert held.bytes == 0
