"""The right to write: the lease, and what becomes of it while the group does not know this gateway."""

from __future__ import annotations

from gateway.fleet.parts import RightToWrite
from gateway.fleet.rules.leases import WriteLease


class Clocked:
    def __init__(self) -> None:
        self.now = 100.0
        self.right = RightToWrite(WriteLease(10.0), lambda: self.now)

    def renew(self) -> None:
        self.right.lease.renewed(self.now)


def test_a_lease_without_an_admission_is_worth_nothing() -> None:
    one = Clocked()
    one.renew()
    assert not one.right.valid()
    assert one.right.left_s() == 0.0
    one.right.admitted()
    assert one.right.valid()
    assert one.right.left_s() == 10.0
    one.right.refused()
    assert not one.right.valid()


def test_a_gateway_that_the_group_forgot_goes_on_until_its_lease_is_over() -> None:
    one = Clocked()
    one.renew()
    one.right.admitted()
    one.right.forgotten()
    one.now += 9
    assert one.right.valid()
    one.renew()  # it is a member again, in time: whoever pauses writes has waited for it
    assert one.right.valid()
    assert not one.right.lapsed


def test_one_whose_lease_was_over_writes_nothing_until_it_is_admitted_anew() -> None:
    one = Clocked()
    one.renew()
    one.right.admitted()
    one.right.forgotten()
    one.now += 11
    one.renew()
    assert one.right.lapsed
    assert not one.right.valid(), "it may have been presumed, and its routes may be old"
    one.right.forgotten()
    assert one.right.lapsed, "to be forgotten twice heals nothing"
    one.right.admitted()
    assert one.right.valid()
