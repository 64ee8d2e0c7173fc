"""The right to write: the lease, and what becomes of it while the group does not know this gateway.

What is done when the write lease ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any, cast

from gateway.fleet.parts import LeaseGuard, RightToWrite
from gateway.fleet.rules.leases import WriteLease
from tests.support.waiting import wait_until_async


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


class FakeCluster:
    def __init__(self) -> None:
        self.dropped: list[Collection[str]] = []

    def drop(self, lanes: Collection[str], reason: str) -> None:
        self.dropped.append(lanes)


async def test_when_the_lease_ends_its_connections_are_closed_once() -> None:
    now, lease, source, appends, writes = [100.0], WriteLease(10.0), FakeCluster(), list[str](), list[int]()
    guard = LeaseGuard(lease, lambda: now[0], lambda: [cast("Any", source)], appends.append, lambda: writes.append(1))
    running = asyncio.create_task(guard.run())
    try:
        assert not guard.valid()
        lease.renewed(100.0)
        assert guard.valid()
        await wait_until_async(lambda: guard._was)
        now[0] = 110.0  # a pause, say
        assert not guard.valid()  # at once, whoever looks first
        await wait_until_async(lambda: appends, 5.0)
        assert source.dropped == [("produce", "transactions")]
        assert writes == [1]
        lease.renewed(110.0)
        await wait_until_async(lambda: guard._was, 5.0)
        assert len(appends) == 1
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
