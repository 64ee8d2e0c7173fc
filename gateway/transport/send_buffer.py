"""The output of a socket: written immediately from its place in memory, copied only when the socket is full."""

from __future__ import annotations

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from gateway.transport.event_loop_io import EventLoopIO, Receiver
from gateway.transport.pipes import SPLICE_FLAGS, Pipe
from gateway.transport.sockets import unacknowledged
from protocol.wire import Buffer

_HIGH_WATER: Final = 64 * 1024


class SendBuffer(ABC):
    """The writing side of a connected, non-blocking socket. Bytes that wait for the socket keep their order.

    Its subclass reads, and closes: after `_closing` only bytes that already wait are written.
    """

    __slots__ = (
        "_closing",
        "_collected",
        "_event_loop_io",
        "_fd",
        "_full",
        "_out",
        "_out_bytes",
        "_pipe",
        "_pipe_bytes",
        "_receiver",
        "_socket",
        "_timer",
        "_under_lease",
        "to_broker",
    )

    def __init__(
        self, sock: socket.socket, receiver: Receiver, event_loop_io: EventLoopIO, *, to_broker: bool = False
    ) -> None:
        self.to_broker = to_broker
        self._socket = sock
        self._fd = sock.fileno()
        self._receiver = receiver
        self._event_loop_io = event_loop_io
        self._collected: list[Buffer] = []
        self._out: list[Buffer] = []  # waits for the socket, after the pipe's content
        self._out_bytes = 0
        self._pipe: Pipe | None = None
        self._pipe_bytes = 0
        self._full = False
        self._closing = False
        self._under_lease = False  # some of what waits for the socket was written under a lease
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """Bytes wait until the socket accepts more."""
        return self._pipe is not None or bool(self._out)

    @property
    def unsent(self) -> int:
        """How many bytes wait for the socket."""
        return self._out_bytes + self._pipe_bytes

    @property
    def untaken(self) -> int:
        """`unsent`, plus the bytes sent that the peer has not acknowledged; 0 while nothing waits."""
        return self.unsent + unacknowledged(self._socket) if self.waiting else 0

    def write(self, data: Buffer) -> None:
        """Write, now or with the collected bytes; `data` may change afterwards."""
        if self._event_loop_io.collecting:
            self.writelines((data,))
        elif self._out or self._pipe is not None:
            self._keep((data,), 0)
        else:
            self._send(data)

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        """Write several pieces as one."""
        event_loop_io = self._event_loop_io
        if event_loop_io.collecting and not self._collected:
            event_loop_io.dirty.append(self)
        self._collected += pieces
        if not event_loop_io.collecting:
            self.flush()

    def flush(self) -> None:
        """Write the collected pieces."""
        pieces, self._collected = self._collected, []
        if not pieces:
            return
        if self.waiting:
            self._keep(pieces, 0)
        else:
            self._send(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _send(self, data: Buffer) -> None:
        """Write now; copy what the socket does not accept."""
        if self._closing:
            return
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as exc:
            self._broken(exc)
            return
        if sent < len(data):
            self._keep((data,), sent)

    def _keep(self, pieces: Sequence[Buffer], sent: int) -> None:
        if self._closing:
            return
        for piece in pieces:
            if sent >= len(piece):
                sent -= len(piece)
                continue
            rest = bytes(memoryview(piece)[sent:])
            sent = 0
            self._out.append(rest)
            self._out_bytes += len(rest)
        self._under_lease = self._under_lease or (self.to_broker and self._event_loop_io.under_lease)
        self._wait()

    def _write_pipe(self, pipe: Pipe, count: int) -> None:
        """Write `count` bytes that are in a pipe. Only when nothing is `waiting`."""
        try:
            sent = os.splice(pipe.exit, self._fd, count, None, None, SPLICE_FLAGS)
        except OSError:  # it occurs again below
            sent = 0
        if sent == count:
            self._event_loop_io.pipes.give_back(pipe)
            return
        self._pipe, self._pipe_bytes = pipe, count - sent
        if not self._empty_pipe():
            self._wait()

    def _empty_pipe(self) -> bool:
        """Write the pipe's content. False: the socket accepts no more, or is broken."""
        pipe = self._pipe
        if pipe is None:
            return True
        while self._pipe_bytes:
            try:
                self._pipe_bytes -= os.splice(pipe.exit, self._fd, self._pipe_bytes, None, None, SPLICE_FLAGS)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as exc:
                self._broken(exc)
                return False
        self._pipe = None
        self._event_loop_io.pipes.give_back(pipe)
        return True

    def _wait(self) -> None:
        """Wait until the socket accepts more."""
        if self._closing:
            return
        self._event_loop_io.loop.add_writer(self._fd, self._writable)
        if not self._full and self._out_bytes + self._pipe_bytes > _HIGH_WATER:
            self._full = True
            self._receiver.pause_writing()

    def _writable(self) -> None:
        if self._under_lease and not self._event_loop_io.lease_valid():
            self.discard()
            return
        try:
            if not self._empty_pipe():
                return
            if self._out:
                data = b"".join(self._out) if len(self._out) > 1 else self._out[0]
                rest = memoryview(data)[self._socket.send(data) :]
                self._out_bytes = len(rest)
                if rest:
                    large = memoryview(rest.obj).nbytes > 2 * len(rest) > _HIGH_WATER
                    self._out = [bytes(rest) if large else rest]  # or a slow peer keeps all until the last byte
                    return
                self._out.clear()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            self._broken(exc)
            return
        self._event_loop_io.loop.remove_writer(self._fd)
        self._under_lease = False
        if self._closing:
            self._end()
        elif self._full:
            self._full = False
            self._receiver.resume_writing()

    @abstractmethod
    def discard(self) -> None:
        """Write nothing more, close immediately, and notify the receiver later."""

    @abstractmethod
    def _lost(self, exc: Exception | None) -> None:
        """The connection is lost."""

    def _broken(self, exc: OSError) -> None:
        """Nothing can be written any more. The receiver is notified later, since the caller is in the middle of its
        work."""
        self._out.clear()
        self._out_bytes = 0
        if self._pipe is not None:
            self._pipe.close()
            self._pipe, self._pipe_bytes = None, 0
        if self._closing:
            self._end()
            return
        self._event_loop_io.loop.remove_writer(self._fd)
        self._event_loop_io.loop.call_soon(self._lost, exc)

    def _end(self) -> None:
        if self._fd < 0:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._event_loop_io.loop.remove_writer(self._fd)
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        self._out.clear()
        self._out_bytes = 0
        self._fd = -1
        self._socket.close()
