from __future__ import annotations

import asyncio

import pytest

from gateway.transport.locks import KeyedLocks


async def test_one_at_a_time_per_key_and_nothing_left_behind():
    locks = KeyedLocks()
    inside: list[str] = []
    most = 0

    async def work(*keys: str) -> None:
        nonlocal most
        async with locks.hold(*keys):
            inside.append(keys[0])
            most = max(most, len(inside))
            for _ in range(3):
                await asyncio.wait([asyncio.get_running_loop().create_task(_nothing())])
            inside.pop()

    await asyncio.gather(*(work("a", "b") for _ in range(5)), *(work("b", "a") for _ in range(5)))

    assert most == 1
    assert locks._locks == {}


async def test_other_keys_do_not_wait():
    locks = KeyedLocks()
    async with locks.hold("a"), asyncio.timeout(1), locks.hold("b"):
        pass


async def test_a_cancelled_waiter_leaves_the_lock_usable():
    locks = KeyedLocks()
    async with locks.hold("a"):
        waiter = asyncio.create_task(_hold(locks))
        await asyncio.wait([asyncio.create_task(_nothing())])
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
    async with asyncio.timeout(1), locks.hold("a"):
        pass
    assert locks._locks == {}


async def _hold(locks: KeyedLocks) -> None:
    async with locks.hold("a"):
        pass


async def _nothing() -> None:
    return
