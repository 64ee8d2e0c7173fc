"""What is done when the write lease ends."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any, cast

from gateway.fleet.lease_guard import LeaseGuard
from gateway.fleet.rules.leases import WriteLease
from tests.support.waiting import wait_until_async


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
