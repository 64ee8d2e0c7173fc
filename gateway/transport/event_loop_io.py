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
    """Has something to write. `to_broker`: what a lease allows to be written goes here."""

    to_broker: bool

    def flush(self) -> None:
        """Write it."""

    def discard(self) -> None:
        """Write none of it, and close: it may not be sent any more."""


class EventLoopIO:
    """What all wires of one event loop share: the receive buffer, pipes, and writes that are collected.

    Between `collect` and `flush` nothing is written: a burst of answers to one peer leaves in one go.

    What was collected under a lease (`fleet/rules/leases.py`) leaves under it too: the process may have been stopped
    in between, and what it wrote then by its old routes would be in nobody's account.

    Attributes:
        lease_valid: asked by `may_write`, and once more before anything leaves that was written on its word.
        under_lease: there is such among what was collected last.
    """

    __slots__ = ("buffer", "collecting", "dirty", "lease_valid", "loop", "pipes", "under_lease", "view")

    def __init__(self, loop: asyncio.AbstractEventLoop, lease_valid: Callable[[], bool] = lambda: True) -> None:
        self.lease_valid = lease_valid
        self.under_lease = False
        self.loop = loop
        self.buffer = bytearray(READ_BYTES)
        self.view = memoryview(self.buffer)
        self.pipes = Pipes()
        self.collecting = False
        self.dirty: list[Dirty] = []

    def may_write(self) -> bool:
        """May what a write pause concerns be written now? What is collected then leaves only if it still may."""
        valid = self.lease_valid()
        if valid:
            self.under_lease = True
        return valid

    def collect(self) -> None:
        """Collect what is written, until `flush`."""
        if not self.collecting:
            self.collecting, self.under_lease = True, False

    def collect_until(self, later: Callable[[Callable[[], None]], None]) -> None:
        """Collect what is written until `later` calls what it is given; nothing, where somebody else flushes."""
        if not self.collecting:
            self.collect()
            later(self.flush)

    def flush(self) -> None:
        """Write what was collected, each wire's in one go; nothing to brokers, if it was under a lease that is over."""
        self.collecting = False
        dirty, self.dirty = self.dirty, []
        over = self.under_lease and not self.lease_valid()
        for wire in dirty:
            if over and wire.to_broker:
                wire.discard()
            else:
                wire.flush()
