"""One asyncio lock per named object, made when needed and dropped when no task holds or awaits it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class KeyedLocks:
    """Locks by key. An operation that needs several takes them in one call: ordered, so never a deadlock."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, *keys: str) -> AsyncIterator[None]:
        """Hold the locks of all keys."""
        held: list[str] = []
        try:
            for key in sorted(set(keys)):
                await self._acquire(key)
                held.append(key)
            yield
        finally:
            for key in reversed(held):
                self._release(key)

    def is_awaited(self, key: str) -> bool:
        """Another task waits for a lock that is held, so work that can be continued later should stop."""
        return key in self._locks and self._locks[key][1] > 1

    async def _acquire(self, key: str) -> None:
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, users + 1)
        try:
            await lock.acquire()
        except BaseException:  # cancelled while waiting: no longer a user
            self._drop_user(key)
            raise

    def _release(self, key: str) -> None:
        self._locks[key][0].release()
        self._drop_user(key)

    def _drop_user(self, key: str) -> None:
        lock, users = self._locks[key]
        if users == 1:
            del self._locks[key]
        else:
            self._locks[key] = (lock, users - 1)
