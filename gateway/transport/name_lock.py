"""Proof that no other process on this machine has a gateway's name: a lock that the kernel frees with its holder.

A name says nothing about who has it: with `fleet.name`, or a pod's name, a process may go on elsewhere, cut off from
the target alone, and write. And a listener's address is free as soon as the old process has closed it, while it still
serves the clients it has. So the fleet waits for the lease of a process whose name another one takes, unless there is
proof that it is dead. This is one: an abstract Unix socket bound to the name, held until the process ends. There is one
set of such sockets per network namespace; while a process lives its namespace does, so two processes that say the same
place (boot id and namespace), and have both held the lock, did so one after the other.
"""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/net")


class NameLock:
    """Taken once, and held until this gateway writes nothing any more, at the latest until its process ends."""

    def __init__(self, name: str) -> None:
        digest = hashlib.sha256(name.encode()).hexdigest()
        self._address = f"\0lockgate-name-{digest}"
        self._socket: socket.socket | None = None

    def take(self) -> str:
        """The place where this process holds the lock; '' when it does not: another one does, or this is no Linux."""
        try:
            place = f"{_BOOT_ID.read_text('ascii').strip()}/{_NAMESPACE.stat().st_ino}"
            if self._socket is None:
                self._socket = _bound(self._address)
        except (OSError, AttributeError):  # AF_UNIX is not everywhere
            return ""
        return place

    def release(self) -> None:
        """Nothing is served or written any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _bound(address: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)  # not inherited by a child process (PEP 446)
    try:
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made
