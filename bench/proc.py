"""What the kernel knows of one process: CPU time and memory (Linux, /proc)."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_AGREE_S: Final = 2.5 * TICK_S
_UTIME: Final = 11  # fields of /proc/PID/stat, counted from the one after the command's name; see proc(5)


def cpu_seconds(pid: int) -> float:
    """User and system time of the process with all its threads, ended ones included; in steps of 10 ms."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    fields = text[text.rindex(")") + 2 :].split()  # the name in parentheses may hold spaces
    return (int(fields[_UTIME]) + int(fields[_UTIME + 1])) * TICK_S


def thread_seconds(pid: int) -> dict[str, float]:
    """The same per living thread, in nanosecond steps (/proc/PID/task/TID/schedstat); empty without that file."""
    found: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it may end meanwhile
            found[task.name] = int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    return found


def memory_kb(pid: int) -> int:
    """Resident memory in KiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ProcessLookupError(f"process {pid} has ended")


def load_average() -> float:
    """How many processes wanted a processor during the last minute."""
    return os.getloadavg()[0]


class Meter:
    """CPU and wall time from its making on. Without a process (nothing stands between) the CPU time is None."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._began = time.monotonic()
        if pid is not None:
            self._before = cpu_seconds(pid)
            self._threads = thread_seconds(pid)

    @property
    def cpu_s(self) -> float | None:
        """CPU seconds so far: the threads' sum where it agrees with the process's own count, which knows more (threads
        that have ended) but less exactly."""
        if self._pid is None:
            return None
        coarse = cpu_seconds(self._pid) - self._before
        fine = sum(used - self._threads.get(thread, 0.0) for thread, used in thread_seconds(self._pid).items())
        return fine if abs(fine - coarse) <= _AGREE_S + 0.02 * coarse else coarse

    @property
    def wall_s(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self._began

    def per(self, work: float, name: str) -> dict[str, float]:
        """`{name: CPU seconds per unit of work}`; empty when there is no process to charge."""
        used = self.cpu_s
        return {} if used is None else {name: used / work}
