from __future__ import annotations

import asyncio
from contextlib import suppress

from gateway.app.memory import find_trim, keep_trimmed


async def test_it_is_trimmed_again_and_again() -> None:
    seen: list[int] = []
    twice = asyncio.Event()
    loop = asyncio.get_running_loop()

    def trim() -> None:
        seen.append(1)
        if len(seen) == 2:
            loop.call_soon_threadsafe(twice.set)

    task = asyncio.create_task(keep_trimmed(trim, 0.001))
    async with asyncio.timeout(10):
        await twice.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_without_it_there_is_nothing_to_do() -> None:
    await keep_trimmed(None)


def test_the_call_is_found_or_not_but_does_no_harm() -> None:
    trim = find_trim()
    if trim is not None:
        trim()
