"""What the wires of one event loop share, and the interfaces that a wire uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from gateway.transport.pipes import Pipes

READ_BYTES: Final = 128 * 1024


class Receiver(Protocol):
    """Takes the bytes that a wire reads. The names are asyncio's, so that a class can also serve a transport."""

    def data_received(self, data: memoryview) -> None:
        """Bytes arrived. They change after the call: copy what must be kept."""

    def peeked(self, data: memoryview) -> bool:
        """The beginning of the next frame, still unread. True: it is opaque and large, and counts as begun."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer closed (None) or the connection broke."""

    def pause_writing(self) -> None:
        """Too many bytes wait to be written."""

    def resume_writing(self) -> None:
        """No bytes wait any more."""


class Opaque(Protocol):
    """Knows how many of the next bytes are opaque.

    `collects`: the last frame was collected whole, and the next one probably will be.
    """

    collects: bool

    @property
    def through(self) -> int:
        """Bytes of the current opaque frame that are still to come."""

    def skipped(self, count: int) -> None:
        """`count` of them were passed on unseen."""


class Dirty(Protocol):
    """Has bytes to write. `to_broker`: to a broker, so they may need a valid lease."""

    to_broker: bool

    def flush(self) -> None:
        """Write them."""

    def discard(self) -> None:
        """Drop them, and close: they may not be sent any more."""


class EventLoopIO:
    """What all wires of one event loop share: the receive buffer, pipes, and collected writes.

    Between `collect` and `flush` nothing is written, so that a burst of answers to one peer leaves in one write.

    Writes collected under a lease (`fleet/rules/leases.py`) leave only under a valid lease: the process may have been
    suspended in between, and a pause would not count what it then writes by its old routes.

    Attributes:
        lease_valid: asked by `may_write`, and again before such writes leave.
        under_lease: the collected writes include some that were allowed by `may_write`.
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
        """Whether writes to mirrored topics are allowed now. Those collected then leave only if they still are."""
        valid = self.lease_valid()
        if valid:
            self.under_lease = True
        return valid

    def collect(self) -> None:
        """Collect writes until `flush`."""
        if not self.collecting:
            self.collecting, self.under_lease = True, False

    def collect_until(self, later: Callable[[Callable[[], None]], None]) -> None:
        """Collect writes until `later` calls the function it gets. Does nothing if writes are collected already."""
        if not self.collecting:
            self.collect()
            later(self.flush)

    def flush(self) -> None:
        """Write each wire's collected bytes at once; but nothing to brokers if they need a lease that is over."""
        self.collecting = False
        dirty, self.dirty = self.dirty, []
        over = self.under_lease and not self.lease_valid()
        for wire in dirty:
            if over and wire.to_broker:
                wire.discard()
            else:
                wire.flush()
