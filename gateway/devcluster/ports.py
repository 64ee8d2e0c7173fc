"""Free ports on this machine, given out without a race between processes.

Asking the kernel for port 0 and closing the socket leaves a gap in which anybody may take the port, an outgoing
connection included. So ports come from below the usual ephemeral range, and each is claimed by a lock on a small file
that is held until this process ends (or `release_ports`); by then the server that wanted the port listens on it.
"""

import atexit
import errno
import fcntl
import os
import random
import socket
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Final

from gateway.devcluster.spec import DevClusterError

_FIRST: Final = 20_000
_LAST: Final = 32_000
_ATTEMPTS: Final = 2_000

_claimed: dict[int, IO[str]] = {}
_mutex = threading.Lock()
atexit.register(lambda: release_ports(list(_claimed)))  # or Python complains of files that nobody closed


def claim_ports(count: int = 1, *, consecutive: bool = False, host: str = "127.0.0.1") -> list[int]:
    """Claim free TCP ports for this process.

    Args:
        count: how many, at least 1.
        consecutive: whether they must follow one another.

    Raises:
        DevClusterError: none found.
    """
    with _mutex:
        if consecutive:
            return _claim_run(count, host)
        return [port for _ in range(count) for port in _claim_run(1, host)]


def release_ports(ports: Iterable[int]) -> None:
    """Give claimed ports back."""
    with _mutex:
        for port in ports:
            handle = _claimed.pop(port, None)
            if handle is not None:
                handle.close()


def is_port_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen on the port now (the remains of closed connections do not count)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def _claim_run(count: int, host: str) -> list[int]:
    for _ in range(_ATTEMPTS):
        first = random.randrange(_FIRST, _LAST - count + 1)  # noqa: S311 - no secret, only spread
        run = list(range(first, first + count))
        taken: dict[int, IO[str]] = {}
        for port in run:
            handle = _lock(port) if port not in _claimed and is_port_free(port, host) else None
            if handle is None:
                break
            taken[port] = handle
        if len(taken) == count:
            _claimed.update(taken)
            return run
        for handle in taken.values():
            handle.close()
    raise DevClusterError(f"no {count} free ports found between {_FIRST} and {_LAST}")


def _lock(port: int) -> IO[str] | None:
    folder = Path(tempfile.gettempdir()) / f"lockgate-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    handle = (folder / str(port)).open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        return None
    return handle
