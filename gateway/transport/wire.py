"""A plain TCP connection of the data plane: a socket without a transport between it and its receiver.

All wires of an event loop read into one shared buffer, and write to the socket immediately (`send_buffer.py`), from the
bytes' place in memory. Opaque bytes do not even reach this process: they are spliced from socket to socket.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from typing import Final

from gateway.transport.event_loop_io import EventLoopIO, Opaque, Receiver
from gateway.transport.first_reads import Readers
from gateway.transport.pipes import SPLICE_FLAGS
from gateway.transport.send_buffer import SendBuffer
from gateway.transport.sockets import forget_unsent, peer_host

_log = logging.getLogger(__name__)

SPLICE_BYTES: Final = 16 * 1024
"""From this many opaque bytes on, splicing costs less than copying."""

_HEAD_BYTES: Final = 256  # peeked from a frame that is likely to be spliced
_FLUSH_S: Final = 10.0  # how long a closed wire may take to write its waiting bytes


class Wire(SendBuffer):
    """One connected, non-blocking socket. Reading starts with `start`.

    `to_broker`: see `Dirty`. `readers`: reports readable sockets until the peer is `trusted`; then, or without it, the
    event loop does.
    """

    __slots__ = ("_large", "_paused", "_readers", "_receive", "_registered", "_stream", "_to")

    def __init__(
        self,
        sock: socket.socket,
        receiver: Receiver,
        event_loop_io: EventLoopIO,
        *,
        to_broker: bool = False,
        readers: Readers | None = None,
    ) -> None:
        super().__init__(sock, receiver, event_loop_io, to_broker=to_broker)
        self._readers: Readers = readers or event_loop_io.loop
        self._receive: Callable[[memoryview], None] = receiver.data_received
        self._stream: Opaque | None = None
        self._to: Wire | None = None
        self._large = False  # the frame being read, or the next one, is worth splicing
        self._paused = False
        self._registered = False

    @property
    def peer_host(self) -> str:
        """The peer's address."""
        return peer_host(self._socket)

    def start(self) -> None:
        """Begin to read."""
        self._register()

    def splice_to(self, other: Wire, stream: Opaque) -> None:
        """Splice the bytes that `stream` calls opaque to `other`, where the receiver would write them."""
        if self._event_loop_io.pipes.usable:
            self._to, self._stream = other, stream

    # -- reading -------------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Stop reading. The socket stays registered until it is readable, since most pauses end before that."""
        self._paused = True

    def resume_reading(self) -> None:
        """Resume reading."""
        self._paused = False
        if not self._registered and not self._closing:
            self._register()

    def trusted(self) -> None:
        """The peer is known now: read it in every turn in which it has sent something."""
        loop, registered = self._event_loop_io.loop, self._registered
        if self._readers is not loop:
            self._unregister()
            self._readers = loop
            if registered:
                self._register()

    def _register(self) -> None:
        self._registered = True
        self._readers.add_reader(self._fd, self._readable)

    def _unregister(self) -> None:
        if self._registered:
            self._registered = False
            self._readers.remove_reader(self._fd)

    def _readable(self) -> None:
        if self._paused:
            self._unregister()
            return
        event_loop_io, stream = self._event_loop_io, self._stream
        try:
            if stream is not None and self._is_large(stream) and self._splice(stream):
                return
            count = self._socket.recv_into(event_loop_io.buffer)
            if not count:
                self._lost(None)
                return
            self._receive(event_loop_io.view[:count])
            if stream is not None:
                self._large = not stream.collects and (count >= SPLICE_BYTES or stream.through >= SPLICE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            self._lost(exc)
        except Exception as exc:  # noqa: BLE001 - a bug of the receiver: it has lost count, this connection must end
            _log.exception("receiving failed")
            self._lost(exc)

    def _is_large(self, stream: Opaque) -> bool:
        """True when the next bytes are worth splicing. After a large frame, peeks at the next one, without reading."""
        if not self._large or stream.through:
            return self._large
        event_loop_io = self._event_loop_io
        count = self._socket.recv_into(event_loop_io.buffer, _HEAD_BYTES, socket.MSG_PEEK)
        self._large = count > 0 and self._receiver.peeked(event_loop_io.view[:count])
        return self._large

    def _splice(self, stream: Opaque) -> bool:
        """Splice opaque bytes. False: they must be read, because earlier output still waits, or there is no pipe."""
        to = self._to
        if to is None or to.waiting or to._closing:
            return False
        pipes = self._event_loop_io.pipes
        pipe = pipes.take()
        if pipe is None:
            return False
        try:
            count = os.splice(self._fd, pipe.entry, min(stream.through, pipe.size), None, None, SPLICE_FLAGS)
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

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop reading, write the waiting bytes (for ten seconds at most), close."""
        if self._closing:
            return
        self.flush()
        self._closing = True
        self._stream = self._to = None
        self._unregister()
        if self.waiting:
            self._timer = self._event_loop_io.loop.call_later(_FLUSH_S, self._end)
        else:
            self._end()

    def take_back(self) -> None:
        """Close immediately. Bytes that have not reached the peer by now never will."""
        self._collected.clear()
        self._closing = True
        self._stream = self._to = None
        self._unregister()
        if self._fd >= 0:
            forget_unsent(self._socket)
        self._end()

    def discard(self) -> None:
        """See `SendBuffer.discard`."""
        self.take_back()
        self._event_loop_io.loop.call_soon(self._lost, ConnectionAbortedError("the write lease is over"))

    def _lost(self, exc: Exception | None) -> None:
        self._unregister()
        self._receiver.connection_lost(exc)
