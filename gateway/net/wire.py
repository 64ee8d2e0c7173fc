"""A plain TCP connection of the data plane: a socket without a transport between it and its receiver.

What is read lands in one buffer that all wires of an event loop share, and what is written goes to the socket at once,
from wherever it lies: a byte is copied only when the socket takes no more. What nobody wants to look at does not even
reach this process: it is spliced from socket to socket.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final

from gateway.net.commons import Buffer, Commons, Opaque, Receiver
from gateway.net.pipes import Pipe

_log = logging.getLogger(__name__)

SPLICE_BYTES: Final = 16 * 1024
"""From how many opaque bytes on splicing costs less than copying them."""

_HEAD_BYTES: Final = 256  # looked at of a frame that is likely to be spliced
_HIGH_WATER: Final = 64 * 1024
_FLUSH_S: Final = 10.0  # how long a closed wire may take to write what it still has
_FLAGS: Final = getattr(os, "SPLICE_F_MOVE", 0) | getattr(os, "SPLICE_F_NONBLOCK", 0)


class Wire:
    """One connected, non-blocking socket. Reading starts with `start`."""

    __slots__ = (
        "_closing",
        "_collected",
        "_commons",
        "_fd",
        "_full",
        "_large",
        "_out",
        "_out_bytes",
        "_paused",
        "_pipe",
        "_pipe_bytes",
        "_receive",
        "_receiver",
        "_registered",
        "_socket",
        "_stream",
        "_timer",
        "_to",
    )

    def __init__(self, sock: socket.socket, receiver: Receiver, commons: Commons) -> None:
        self._socket = sock
        self._fd = sock.fileno()
        self._receiver = receiver
        self._receive: Callable[[memoryview], None] = receiver.data_received
        self._commons = commons
        self._stream: Opaque | None = None
        self._to: Wire | None = None
        self._collected: list[Buffer] = []
        self._out: list[Buffer] = []  # waits for the socket, behind what is in the pipe
        self._out_bytes = 0
        self._pipe: Pipe | None = None
        self._pipe_bytes = 0
        self._large = False  # the frame being read, or the last one, is worth splicing
        self._paused = False
        self._registered = False
        self._full = False
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def peer_host(self) -> str:
        """The peer's address."""
        try:
            return str(self._socket.getpeername()[0])
        except OSError:  # it has gone already
            return ""

    def start(self) -> None:
        """Begin to read."""
        self._register()

    def splice_to(self, other: Wire, stream: Opaque) -> None:
        """What `stream` calls opaque goes to `other`, which is where its receiver would write it."""
        if self._commons.pipes.usable:
            self._to, self._stream = other, stream

    # -- reading -------------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Read no more. The poll goes on until there is something to read, since most pauses end before."""
        self._paused = True

    def resume_reading(self) -> None:
        """Read on."""
        self._paused = False
        if not self._registered and not self._closing:
            self._register()

    def _register(self) -> None:
        self._registered = True
        self._commons.loop.add_reader(self._fd, self._readable)

    def _unregister(self) -> None:
        if self._registered:
            self._registered = False
            self._commons.loop.remove_reader(self._fd)

    def _readable(self) -> None:
        if self._paused:
            self._unregister()
            return
        commons, stream = self._commons, self._stream
        try:
            if stream is not None and self._is_large(stream) and self._splice(stream):
                return
            count = self._socket.recv_into(commons.buffer)
            if not count:
                self._lost(None)
                return
            self._receive(commons.view[:count])
            if stream is not None:
                self._large = count >= SPLICE_BYTES or stream.through >= SPLICE_BYTES
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            self._lost(exc)
        except Exception as exc:  # noqa: BLE001 - a bug of the receiver: it has lost count, this connection must end
            _log.exception("receiving failed")
            self._lost(exc)

    def _is_large(self, stream: Opaque) -> bool:
        """What comes next is worth splicing. When the last frame was large, look at the next one without reading it."""
        if not self._large or stream.through:
            return self._large
        commons = self._commons
        count = self._socket.recv_into(commons.buffer, _HEAD_BYTES, socket.MSG_PEEK)
        self._large = count > 0 and self._receiver.peeked(commons.view[:count])
        return self._large

    def _splice(self, stream: Opaque) -> bool:
        """Move opaque bytes on. False: they have to be read, because what was written before still waits."""
        to = self._to
        if to is None or to.waiting or to._closing:
            return False
        pipes = self._commons.pipes
        pipe = pipes.take()
        if pipe is None:
            return False
        try:
            count = os.splice(self._fd, pipe.entry, min(stream.through, pipe.size), None, None, _FLAGS)
        except (BlockingIOError, InterruptedError):
            pipes.give_back(pipe)
            return True
        except OSError as exc:
            pipes.give_back(pipe)
            self._lost(exc)
            return True
        if not count:
            pipes.give_back(pipe)
            self._lost(None)
            return True
        to._write_pipe(pipe, count)
        stream.skipped(count)
        return True

    # -- writing -------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Something waits until the socket takes more."""
        return self._pipe is not None or bool(self._out)

    def write(self, data: Buffer) -> None:
        """Write, now or with all that is collected; `data` may change after that."""
        if self._commons.collecting:
            self.writelines((data,))
        elif self._out or self._pipe is not None:
            self._keep((data,), 0)
        else:
            self._send(data)

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        """Write several pieces as one."""
        commons = self._commons
        if commons.collecting and not self._collected:
            commons.dirty.append(self)
        self._collected += pieces
        if not commons.collecting:
            self.flush()

    def flush(self) -> None:
        """Write what was collected."""
        pieces, self._collected = self._collected, []
        if not pieces:
            return
        if self.waiting:
            self._keep(pieces, 0)
        else:
            self._send(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _send(self, data: Buffer) -> None:
        """Write now; copy what the socket does not take."""
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
        self._wait()

    def _write_pipe(self, pipe: Pipe, count: int) -> None:
        """Write `count` bytes that are in a pipe. Only when nothing is `waiting`."""
        try:
            sent = os.splice(pipe.exit, self._fd, count, None, None, _FLAGS)
        except OSError:  # found again below
            sent = 0
        if sent == count:
            self._commons.pipes.give_back(pipe)
            return
        self._pipe, self._pipe_bytes = pipe, count - sent
        if not self._empty_pipe():
            self._wait()

    def _empty_pipe(self) -> bool:
        """Write what is in the pipe. False: the socket takes no more, or is broken."""
        pipe = self._pipe
        if pipe is None:
            return True
        while self._pipe_bytes:
            try:
                self._pipe_bytes -= os.splice(pipe.exit, self._fd, self._pipe_bytes, None, None, _FLAGS)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as exc:
                self._broken(exc)
                return False
        self._pipe = None
        self._commons.pipes.give_back(pipe)
        return True

    def _wait(self) -> None:
        """Until the socket takes more."""
        if self._closing:
            return
        self._commons.loop.add_writer(self._fd, self._writable)
        if not self._full and self._out_bytes + self._pipe_bytes > _HIGH_WATER:
            self._full = True
            self._receiver.pause_writing()

    def _writable(self) -> None:
        try:
            if not self._empty_pipe():
                return
            if self._out:
                data = b"".join(self._out) if len(self._out) > 1 else self._out[0]
                self._out = [memoryview(data)[self._socket.send(data) :]]
                self._out_bytes = len(self._out[0])
                if self._out_bytes:
                    return
                self._out.clear()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            self._broken(exc)
            return
        self._commons.loop.remove_writer(self._fd)
        if self._closing:
            self._end()
        elif self._full:
            self._full = False
            self._receiver.resume_writing()

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Read no more, write what is written already (for ten seconds at most), close."""
        if self._closing:
            return
        self.flush()
        self._closing = True
        self._stream = self._to = None
        self._unregister()
        if self.waiting:
            self._timer = self._commons.loop.call_later(_FLUSH_S, self._end)
        else:
            self._end()

    def _lost(self, exc: Exception | None) -> None:
        self._unregister()
        self._receiver.connection_lost(exc)

    def _broken(self, exc: OSError) -> None:
        """Nothing can be written any more. Told later: whoever writes is in the midst of something."""
        self._out.clear()
        self._out_bytes = 0
        if self._pipe is not None:
            self._pipe.close()
            self._pipe, self._pipe_bytes = None, 0
        if self._closing:
            self._end()
            return
        self._commons.loop.remove_writer(self._fd)
        self._commons.loop.call_soon(self._lost, exc)

    def _end(self) -> None:
        if self._fd < 0:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._commons.loop.remove_writer(self._fd)
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        self._fd = -1
        self._socket.close()
