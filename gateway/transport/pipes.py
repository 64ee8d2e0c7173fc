"""Kernel pipes through which bytes are spliced from one socket to another. Linux only: elsewhere there are none."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Final

SPLICE_FLAGS: Final = getattr(os, "SPLICE_F_MOVE", 0) | getattr(os, "SPLICE_F_NONBLOCK", 0)
_WANTED_BYTES: Final = 1024 * 1024
_SET_SIZE: Final = 1031  # F_SETPIPE_SZ and F_GETPIPE_SZ, see fcntl(2); the names are Python 3.10's on Linux
_GET_SIZE: Final = 1032
_KEPT: Final = 16  # empty pipes; more are needed only while as many peers are slow at once


class Pipe:
    """An empty pipe: bytes are spliced into `entry` and out of `exit`; it holds about `size` of them."""

    __slots__ = ("entry", "exit", "size")

    def __init__(self) -> None:
        self.exit, self.entry = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self.size = fcntl.fcntl(self.entry, _SET_SIZE, _WANTED_BYTES)
        except OSError:  # more than this user may have
            self.size = fcntl.fcntl(self.entry, _GET_SIZE)

    def close(self) -> None:
        """Close the pipe, and lose its content."""
        os.close(self.entry)
        os.close(self.exit)


class Pipes:
    """The pipes of one event loop. One is enough unless spliced bytes cannot leave immediately."""

    __slots__ = ("_free", "usable")

    def __init__(self) -> None:
        self._free: list[Pipe] = []
        self.usable = hasattr(os, "splice") and hasattr(os, "pipe2")

    def take(self) -> Pipe | None:
        """An empty pipe; None when the process has no descriptors left: then bytes must be copied."""
        if self._free:
            return self._free.pop()
        try:
            return Pipe()
        except OSError as exc:
            if exc.errno in (errno.EMFILE, errno.ENFILE):
                return None
            raise

    def give_back(self, pipe: Pipe) -> None:
        """Return an empty pipe."""
        if len(self._free) < _KEPT:
            self._free.append(pipe)
        else:
            pipe.close()

    def close(self) -> None:
        """Close the free pipes."""
        while self._free:
            self._free.pop().close()
