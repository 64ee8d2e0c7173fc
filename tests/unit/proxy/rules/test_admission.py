"""How many connections of clients are accepted: in all, of one address, and in a second."""

from __future__ import annotations

import pytest

from gateway.proxy.rules.admission import Admission
from gateway.proxy.rules.rates import KEPT
from tests.support.proxy.limits import limits_with


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def admission(clock: Clock, **limits: int) -> Admission:
    return Admission(limits_with(**limits), clock)


def test_so_many_in_all(clock: Clock) -> None:
    limits = admission(clock, connections=2)
    assert [limits.refusal(f"10.0.0.{n}") for n in range(3)] == ["", "", "connections"]
    limits.left("10.0.0.1")
    assert limits.refusal("10.0.0.9") == ""
    assert limits.refused == {"connections": 1}


def test_so_many_of_an_address(clock: Clock) -> None:
    limits = admission(clock, connections_per_address=2)
    assert [limits.refusal("10.0.0.1") for _ in range(3)] == ["", "", "address"]
    assert limits.refusal("10.0.0.2") == ""
    limits.left("10.0.0.1")
    assert [limits.refusal("10.0.0.1") for _ in range(2)] == ["", "address"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
    ],
)
def test_a_network_of_64_bits_is_one_address(clock: Clock, one: str, other: str, same: bool) -> None:
    limits = admission(clock, connections_per_address=1)
    assert limits.refusal(one) == ""
    assert (limits.refusal(other) == "address") is same


def test_so_many_new_ones_in_a_second(clock: Clock) -> None:
    limits = admission(clock, connections_per_second=10)
    assert [limits.refusal("10.0.0.1") for _ in range(21)] == [""] * 20 + ["rate"]
    assert limits.refusal("10.0.0.2") == ""
    clock.now += 0.5
    assert [limits.refusal("10.0.0.1") for _ in range(6)] == [""] * 5 + ["rate"]
    clock.now += 3_600
    assert [limits.refusal("10.0.0.1") for _ in range(21)] == [""] * 20 + ["rate"]


def test_addresses_are_not_remembered_for_ever(clock: Clock) -> None:
    limits = admission(clock, connections=10**9)
    for n in range(3 * KEPT):
        clock.now += 1
        limits.refusal(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}")
        limits.left(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}")
    assert len(limits._rates) <= KEPT
    assert not limits._of_address


def test_who_was_never_accepted_does_not_leave(clock: Clock) -> None:
    limits = admission(clock, connections=1)
    limits.left("10.0.0.1")
    assert [limits.refusal("10.0.0.1") for _ in range(2)] == ["", "connections"]
