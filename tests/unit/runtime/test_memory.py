from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace

import pytest

from gateway.runtime.memory import find_trim, keep_trimmed


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
    task = asyncio.create_task(keep_trimmed(None, 3600.0))
    await asyncio.wait({task}, timeout=1)
    assert task.done()


def test_all_that_malloc_holds_free_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def malloc_trim(pad: int) -> int:
        asked.append(pad)
        return 1

    monkeypatch.setattr("ctypes.CDLL", lambda name: SimpleNamespace(malloc_trim=malloc_trim))
    trim = find_trim()
    assert trim is not None
    trim()
    assert asked == [0]  # bytes to keep


def test_a_c_library_without_the_call_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: SimpleNamespace())
    assert find_trim() is None
