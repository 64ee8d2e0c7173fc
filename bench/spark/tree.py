"""CPU time of a process and of all that it starts: a Spark job is a Python driver, a JVM, and Python workers."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from bench.proc import TICK_S

_LOOK_S: Final = 0.05
_SESSION: Final = 3  # fields of /proc/PID/stat after the command's name; see proc(5)
_UTIME: Final = 11
_BEGAN: Final = 19


class TreeMeter:
    """Adds up the CPU time of every process of one session, looking many times a second.

    What a process uses after the last look at it is missed: some hundredths of a second each.
    """

    def __init__(self, session: int) -> None:
        self._session = session
        self._used: dict[tuple[int, int], float] = {}  # process id and start time -> seconds
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="cpu of a job", daemon=True)
        self._thread.start()

    @property
    def cpu_s(self) -> float:
        """Seconds so far."""
        self._look()
        with self._lock:
            return sum(self._used.values())

    def stop(self) -> float:
        """Look no more; all seconds."""
        self._over.set()
        self._thread.join()
        return self.cpu_s

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._look()

    def _look(self) -> None:
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                self._look_at(int(folder.name))

    def _look_at(self, pid: int) -> None:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:  # it has ended
            return
        fields = text[text.rindex(")") + 2 :].split()
        if int(fields[_SESSION]) == self._session:
            seconds = (int(fields[_UTIME]) + int(fields[_UTIME + 1])) * TICK_S
            with self._lock:
                self._used[pid, int(fields[_BEGAN])] = seconds
