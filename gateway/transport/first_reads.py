"""Sockets that are read on a schedule: each reports once that it is readable, and then waits until it is read.

An event loop calls the readers of all readable sockets in the same turn, however many there are. Here the sockets are
behind one descriptor of the loop (an epoll in an epoll): a turn takes a bounded number of ready ones, passes each to
`when_due`, and none reports again until it was read. So `when_due` decides over how many turns a thousand sockets that
become ready together are read, and those that wait cost nothing meanwhile.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

_AT_ONCE: Final = 256  # half a microsecond each
_ONCE: Final = select.EPOLLIN | select.EPOLLONESHOT if hasattr(select, "epoll") else 0


class Readers(Protocol):
    """Calls a function when a socket is readable. An event loop is one."""

    def add_reader(self, fd: int, callback: Callable[[], Any], /) -> object:
        """Call `callback` whenever the socket is readable."""

    def remove_reader(self, fd: int, /) -> object:
        """Stop calling it."""


class FirstReads:
    """The scheduled sockets of one event loop.

    Args:
        when_due: (host, work): runs work for a host, now or later.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, when_due: Callable[[str, Callable[[], None]], None]) -> None:
        self._loop = loop
        self._when_due = when_due
        self._epoll: select.epoll | None = None
        self._readers: dict[int, _ReadSocket] = {}

    def of(self, host: str) -> Readers:
        """The readers for connections from a host; without epoll, the loop itself."""
        return _OfHost(self, host) if _ONCE else self._loop

    def close(self) -> None:
        """Stop reading all sockets."""
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None
        self._readers.clear()

    def add(self, fd: int, host: str, callback: Callable[[], Any]) -> None:
        """See `Readers.add_reader`."""
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._ready, self._epoll)
        self._readers[fd] = _ReadSocket(fd, host, callback)
        self._epoll.register(fd, _ONCE)

    def remove(self, fd: int) -> None:
        """See `Readers.remove_reader`."""
        if self._readers.pop(fd, None) is not None and self._epoll is not None:
            with suppress(OSError):
                self._epoll.unregister(fd)

    def _ready(self, epoll: select.epoll) -> None:
        for fd, _ in epoll.poll(0, _AT_ONCE):
            reader = self._readers.get(fd)
            if reader is not None:
                self._when_due(reader.host, partial(self._read, reader))

    def _read(self, reader: _ReadSocket) -> None:
        if self._readers.get(reader.fd) is not reader:
            return  # its connection is closed, or its client has logged in
        try:
            reader.callback()
        finally:  # the event loop logs what the callback raises, and calls it again, as it does with its own readers
            if self._readers.get(reader.fd) is reader and self._epoll is not None:
                self._epoll.modify(reader.fd, _ONCE)


class _ReadSocket:
    __slots__ = ("callback", "fd", "host")

    def __init__(self, fd: int, host: str, callback: Callable[[], Any]) -> None:
        self.fd = fd
        self.host = host
        self.callback = callback


class _OfHost:
    """`Readers` of the connections from one host."""

    __slots__ = ("_host", "_reads")

    def __init__(self, reads: FirstReads, host: str) -> None:
        self._reads = reads
        self._host = host

    def add_reader(self, fd: int, callback: Callable[[], Any]) -> None:
        self._reads.add(fd, self._host, callback)

    def remove_reader(self, fd: int) -> None:
        self._reads.remove(fd)
