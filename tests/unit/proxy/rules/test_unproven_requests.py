"""Strangers have a pot of their own: who has held something for long is closed, and nobody else pays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.rules.unproven_requests import OVER, UnprovenRequests


class Connection:
    """Sends while it is open."""

    def __init__(self, pot: UnprovenRequests, host: str = "10.0.0.1") -> None:
        self.pot = pot
        self.host = host
        self.count = 0
        self.closed = ""

    def sends(self, count: int) -> None:
        self.count += count
        self.pot.holds(self, self.count, unfinished=True)

    def close(self, reason: str) -> None:
        assert not self.closed
        self.closed = reason
        self.pot.ended(self)


def test_the_pot_is_a_sixteenth_and_the_oldest_goes() -> None:
    pot = UnprovenRequests(1_600)
    old, young, last = (Connection(pot, f"10.0.0.{number}") for number in range(3))
    for each in (old, young):
        each.sends(45)
    old.sends(5)  # who trickles is no younger for it
    assert (old.closed, young.closed, pot.bytes) == ("", "", 95)
    last.sends(6)
    assert (old.closed, young.closed, last.closed, pot.bytes) == (OVER, "", "", 51)


def test_one_address_has_an_eighth_and_closes_its_own_alone() -> None:
    pot = UnprovenRequests(12_800)
    other = Connection(pot, "10.0.0.9")
    other.sends(90)
    mine = [Connection(pot) for _ in range(3)]
    for each in mine:
        each.sends(50)
    assert [each.closed for each in (other, *mine)] == ["", OVER, "", ""]


def test_a_network_of_one_host_is_one_address() -> None:
    pot = UnprovenRequests(12_800)
    first, second = Connection(pot, "2001:db8::1"), Connection(pot, "2001:db8::2")
    first.sends(60)
    second.sends(60)
    assert (first.closed, second.closed) == (OVER, "")


def test_the_last_one_is_never_closed() -> None:
    pot = UnprovenRequests(16)
    alone = Connection(pot)
    alone.sends(1_000)
    assert (alone.closed, pot.bytes) == ("", 1_000)


def test_who_has_sent_it_on_is_young_again() -> None:
    pot = UnprovenRequests(1_600)
    one, two = Connection(pot, "a"), Connection(pot, "b")
    one.sends(10)
    two.sends(10)
    one.sends(-10)
    one.sends(10)
    two.sends(85)
    assert (one.closed, two.closed) == ("", OVER)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 60)), max_size=60))
def test_it_stays_within_its_bounds_and_forgets_all(sent: list[tuple[int, int]]) -> None:
    pot = UnprovenRequests(1_600)
    everybody = [Connection(pot, f"10.0.0.{number % 3}") for number in range(10)]
    for number, count in sent:
        if not everybody[number].closed:
            everybody[number].sends(count)
        assert pot.bytes <= 100 or len(pot._of) == 1
        assert pot.bytes == sum(each.count for each in everybody if not each.closed)
    for each in everybody:
        if not each.closed:
            each.close("over")
    assert (pot.bytes, pot._of, pot._at, pot._bytes_at) == (0, {}, {}, {})
