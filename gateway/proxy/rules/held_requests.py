"""The memory of requests that wait in the gateway, of all connections together; who is over it is not read.

Requests that are collected for a handler are held until they are answered or sent on; so is what has arrived of them,
and what was read behind a request that waits. Only what has arrived counts, not what a header claims. Above the limit
whoever has come to hold more is not read any more, until there is room again. Then nobody's request would become whole
where all memory is held by halves: so one of those may go on, in the order in which they were stopped.

A connection is looked at when it holds more or less than before; what passes through is never held.
"""

from __future__ import annotations

from typing import Protocol


class Reader(Protocol):
    """A connection of a client."""

    def pause_for_memory(self, paused: bool) -> bool:
        """Read it no more, or read it on. Returns whether it is read now: something else may stop it, too."""


class HeldRequests:
    """Of all connections. `bytes`: held now. `paused`: how often a connection was made to wait."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of: dict[Reader, int] = {}
        self._waiting: dict[Reader, bool] = {}  # is it in the midst of a request?
        self._turn: Reader | None = None  # goes on above the limit
        self.bytes = 0
        self.paused = 0

    @property
    def waiting(self) -> int:
        """How many connections are not read now."""
        return len(self._waiting)

    def holds(self, reader: Reader, count: int, *, unfinished: bool) -> None:
        """The connection holds so many bytes now. `unfinished`: a request of its has arrived in part."""
        before = self._of.get(reader, 0)
        self.bytes += count - before
        if count:
            self._of[reader] = count
        else:
            self._of.pop(reader, None)
        if self._turn is reader and not unfinished:
            self._turn = None
        if count > before and self.bytes > self._limit and self._turn is not reader and reader not in self._waiting:
            self._waiting[reader] = unfinished
            self.paused += 1
            reader.pause_for_memory(True)
        if self._waiting:
            self._let_go()

    def ended(self, reader: Reader) -> None:
        """The connection is closed."""
        self._waiting.pop(reader, None)
        self.holds(reader, 0, unfinished=False)

    def _let_go(self) -> None:
        while self._waiting and self.bytes <= self._limit:
            reader = next(iter(self._waiting))
            del self._waiting[reader]
            reader.pause_for_memory(False)
        if self._turn is not None:
            return
        for reader in [each for each, unfinished in self._waiting.items() if unfinished]:
            if reader.pause_for_memory(False):
                del self._waiting[reader]
                self._turn = reader
                return
            reader.pause_for_memory(True)
