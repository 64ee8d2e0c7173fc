"""Proof that no other process on this machine has a gateway's name: a lock that the kernel frees with its holder.

A name alone proves nothing: with `fleet.name`, or a pod's name, the old process may still run elsewhere, cut off only
from the target, and write. A listener's address proves nothing either: it is free as soon as the old process has closed
it, while that process still serves its clients. So when a process takes another one's name, the fleet waits for the
other's lease to end, unless there is proof that it is dead. This file makes such a proof: locks held until the process
ends, and the *places* where they are held. Two processes that report the same place, and have both held the lock there,
held it one after the other.

One lock is flock on a file in the gateway's own folder, which no other user can open: `$RUNTIME_DIRECTORY` of systemd,
or the folder of the admin's token. Its place is the boot and the file, by device and inode: if a held file is removed,
its inode stays with the holder, so a process that creates another file reports another place. The other lock is an
abstract Unix socket bound to the name; each network namespace has its own set. It outlives the files of a container
that restarts in its pod. Any process in the namespace can occupy it, and so prevent this proof, but none can forge it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import structlog

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/net")
_HELD = (errno.EWOULDBLOCK, errno.EADDRINUSE)
_log = structlog.get_logger("lockgate.fleet")


def folder_of(environment: Mapping[str, str]) -> Path:
    """The gateway's own folder: systemd's, or `$XDG_STATE_HOME/lockgate`, by default `~/.local/state/lockgate`."""
    runtime = environment.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if runtime.startswith("/"):
        return Path(runtime)
    state = environment.get("XDG_STATE_HOME", "")
    home = Path(environment.get("HOME") or "/") / ".local" / "state"
    return (Path(state) if state.startswith("/") else home) / "lockgate"


class NameLock:
    """Taken once, and held until this gateway stops writing, at the latest until its process ends.

    Args:
        folder: for the file; by default the gateway's own.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self._name = name
        self._folder = folder
        digest = hashlib.sha256(name.encode()).hexdigest()
        self._file_name = f"name-{digest[:32]}.lock"
        self._address = f"\0lockgate-name-{digest}"
        self._held: dict[str, socket.socket | IO[bytes]] = {}
        self._places: dict[str, str] = {}
        self._told: set[str] = set()

    def take(self) -> str:
        """Take the locks. Returns the places of those held, joined by `;`; '' when others hold them, or off Linux."""
        for kind, take in (("file", self._file), ("socket", self._abstract)):
            if kind in self._held:
                continue
            try:
                boot = _BOOT_ID.read_text("ascii").strip()
                self._held[kind], found = take()
            except (OSError, AttributeError) as error:  # AF_UNIX is not everywhere
                self._tell(kind, error)
            else:
                self._places[kind] = f"{boot}/{found}"
        return ";".join(self._places[kind] for kind in self._held)

    def release(self) -> None:
        """Release the locks, once this gateway neither serves nor writes any more."""
        for held in self._held.values():
            held.close()
        self._held.clear()

    def _file(self) -> tuple[IO[bytes], str]:
        opened = _opened((self._folder or folder_of(os.environ)) / self._file_name)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            opened.close()
            raise
        found = os.fstat(opened.fileno())
        return opened, f"{found.st_dev}:{found.st_ino}"

    def _abstract(self) -> tuple[socket.socket, str]:
        return _bound(self._address), str(_NAMESPACE.stat().st_ino)

    def _tell(self, kind: str, error: Exception) -> None:
        """Log once per lock: it is tried again each time."""
        if kind in self._told:
            return
        self._told.add(kind)
        if isinstance(error, OSError) and error.errno in _HELD:
            _log.warning("another process holds the lock of the gateway's name", name=self._name, lock=kind)
        else:
            _log.info("a lock of the gateway's name is not to be had", name=self._name, lock=kind, error=str(error))


def _opened(path: Path) -> IO[bytes]:
    """A file that its owner alone can open; not inherited by a child process (PEP 446)."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b", buffering=0)


def _bound(address: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)  # not inherited by a child process (PEP 446)
    try:
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made
