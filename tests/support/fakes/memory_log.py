"""The log of the state topic, in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gateway.state.errors import StoreError, StoreUncertain
from gateway.state.log import WRITER_KEY, Change, Entry


class MemoryLog:
    """A `store.Log`. `failures`: raised by the next commits, one each. Share `kept` between logs to reopen."""

    def __init__(self, kept: dict[str, bytes] | None = None) -> None:
        self.kept: dict[str, bytes] = {} if kept is None else kept
        self.failures: list[StoreError | None] = []
        self.commits: list[list[Change]] = []
        self.uncertain: list[Change] = []
        self.outcome: bool | StoreError = True
        self.is_open = False
        self._answers = asyncio.Event()
        self._answers.set()
        self.end = 0
        self.news: asyncio.Queue[Entry] = asyncio.Queue()

    async def open(self) -> list[Entry]:
        self.is_open = True
        return [self._entry(key, value) for key, value in self.kept.items()]

    async def read(self, timeout_s: float) -> list[Entry]:
        return [await self.news.get()]

    async def lead(self) -> int:
        return self.take_over("me")

    def take_over(self, instance: str) -> int:
        """A process of this name leads from now on."""
        entry = self._entry(WRITER_KEY, json.dumps({"v": 1, "instance": instance}).encode())
        self.news.put_nowait(entry)
        return entry.offset

    def resign(self) -> None:
        pass

    @contextmanager
    def held(self) -> Iterator[None]:
        """Commits are not answered before the end of the block."""
        self._answers.clear()
        try:
            yield
        finally:
            self._answers.set()

    async def read_anew(self) -> list[Entry]:
        return await self.open()

    async def commit(self, changes: Sequence[Change], still: Callable[[], None]) -> int:
        await asyncio.wait_for(self._answers.wait(), 10.0)
        still()
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, StoreUncertain):
            self.uncertain = list(changes)
        if failure is not None:
            raise failure
        return self._keep(changes)

    async def write_again(self, changes: Sequence[Change], was: Sequence[int]) -> int:
        return self._keep(changes)

    async def resolve_outcome(self) -> int:
        if isinstance(self.outcome, StoreError):
            raise self.outcome
        return self._keep(self.uncertain)

    async def close(self) -> None:
        self.is_open = False

    def _entry(self, key: str, value: bytes | None) -> Entry:
        self.end += 1
        return Entry(self.end, key, value)

    def _keep(self, changes: Sequence[Change]) -> int:
        self.commits.append(list(changes))
        for key, value in changes:
            self.end += 1
            if value is None:
                self.kept.pop(key, None)
            else:
                self.kept[key] = value
        return self.end
