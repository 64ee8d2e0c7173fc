"""Background work ends together."""

from __future__ import annotations

import asyncio

from gateway.transport.background import Background


async def test_what_is_begun_in_the_end_of_another_ends_too():
    background, ended, running = Background(), [], asyncio.Event()

    async def later() -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            ended.append("later")

    async def first() -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            running.clear()
            background.spawn(later(), "later")
            await running.wait()

    background.spawn(first(), "first")
    await running.wait()
    await background.close()

    assert ended == ["later"]
    assert not [task for task in asyncio.all_tasks() if task.get_name() in ("first", "later")]
