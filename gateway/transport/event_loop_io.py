"""What the wires of one event loop share, and what a wire asks of those around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from gateway.transport.pipes import Pipes

READ_BYTES: Final = 128 * 1024


class Receiver(Protocol):
    """Who takes what a wire reads. The names are asyncio's, so that one class can sit at a transport too."""

    def data_received(self, data: memoryview) -> None:
        """Bytes arrived. They change after the call: what is to be kept has to be copied."""

    def peeked(self, data: memoryview) -> bool:
        """The beginning of the next frame, still unread. True: it is opaque and large, and counts as begun."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer closed (None) or the connection broke."""

    def pause_writing(self) -> None:
        """More waits to be written than should."""

    def resume_writing(self) -> None:
        """Nothing waits any more."""


class Opaque(Protocol):
    """Knows how much of what comes next nobody wants to see.

    `collects`: somebody has wanted to see the last frame whole, and will the next one.
    """

    collects: bool

    @property
    def through(self) -> int:
        """Bytes of the current opaque frame that are still to come."""

    def skipped(self, count: int) -> None:
        """So many of them were passed on without being seen."""


class Dirty(Protocol):
    """Has something to write."""

    def flush(self) -> None:
        """Write it."""


class EventLoopIO:
    """What all wires of one event loop share: the receive buffer, pipes, and writes that are collected.

    Between `collect` and `flush` nothing is written: a burst of answers to one peer leaves in one go.
    """

    __slots__ = ("buffer", "collecting", "dirty", "loop", "pipes", "view")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.buffer = bytearray(READ_BYTES)
        self.view = memoryview(self.buffer)
        self.pipes = Pipes()
        self.collecting = False
        self.dirty: list[Dirty] = []

    def collect(self) -> None:
        """Collect what is written, until `flush`."""
        self.collecting = True

    def collect_until(self, later: Callable[[Callable[[], None]], None]) -> None:
        """Collect what is written until `later` calls what it is given; nothing, where somebody else flushes."""
        if not self.collecting:
            self.collecting = True
            later(self.flush)

    def flush(self) -> None:
        """Write what was collected, each wire's in one go."""
        self.collecting = False
        dirty, self.dirty = self.dirty, []
        for wire in dirty:
            wire.flush()
