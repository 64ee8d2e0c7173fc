"""The log of the state topic, in memory."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gateway.control.state_reader import WRITER_KEY, Entry
from gateway.control.state_topic import Change
from gateway.control.store_errors import StoreError, StoreUncertain


class MemoryLog:
    """A `store.Log`. `failures`: raised by the next commits, one each. Share `kept` between logs to reopen."""

    def __init__(self, kept: dict[str, bytes] | None = None) -> None:
        self.kept: dict[str, bytes] = {} if kept is None else kept
        self.failures: list[StoreError | None] = []
        self.commits: list[list[Change]] = []
        self.uncertain: list[Change] = []
        self.settled_as: bool | StoreError = True
        self.is_open = False
        self._answers = threading.Event()
        self._answers.set()
        self.end = 0
        self.news: queue.SimpleQueue[Entry] = queue.SimpleQueue()

    def open(self) -> list[Entry]:
        self.is_open = True
        return [self._entry(key, value) for key, value in self.kept.items()]

    def read(self, timeout_s: float) -> list[Entry]:
        try:
            return [self.news.get(timeout=min(timeout_s, 0.05))]
        except queue.Empty:
            return []

    def lead(self) -> int:
        return self.take_over("me")

    def take_over(self, instance: str) -> int:
        """A process of this name leads from now on."""
        entry = self._entry(WRITER_KEY, json.dumps({"v": 1, "instance": instance}).encode())
        self.news.put(entry)
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

    def commit(self, changes: Sequence[Change]) -> int:
        assert self._answers.wait(10.0)
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, StoreUncertain):
            self.uncertain = list(changes)
        if failure is not None:
            raise failure
        return self._keep(changes)

    def settle(self) -> int:
        if isinstance(self.settled_as, StoreError):
            raise self.settled_as
        return self._keep(self.uncertain)

    def close(self) -> None:
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
