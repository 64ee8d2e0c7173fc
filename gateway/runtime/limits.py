"""What the operating system lets this process do: as many files as it may have, and no image of its memory on disk.

A connection is a file, and the usual soft limit of 1,024 is a few hundred clients. A core dump would hold passwords,
keys and records.
"""

from __future__ import annotations

import ctypes
import resource
from typing import Final

import structlog

_PR_SET_DUMPABLE: Final = 4  # prctl(2)
_log = structlog.get_logger("lockgate")


def set_limits() -> None:
    """For the whole life of the process. What cannot be had is logged, and no reason not to serve."""
    _raise_files()
    _forbid_dumps()


def _raise_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as exc:
        _log.warning("the limit of open files stays as it is", limit=soft, hard=hard, reason=str(exc))


def _forbid_dumps() -> None:
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (OSError, ValueError) as exc:
        _log.warning("core dumps are not switched off", reason=str(exc))
    prctl = getattr(ctypes.CDLL(None), "prctl", None)  # Linux only
    if prctl is not None and prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        _log.warning("memory can still be read by other processes of this user")
