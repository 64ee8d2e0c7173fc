"""The process that has a gateway's workers as its children: it starts them, again when they die, and stops them.

It has no threads and no event loop, opens no connection, and waits for signals; what to do is decided in
`rules/restarts.py`. Workers are forked: secrets of the settings are in no argument, no file and no environment of
theirs. One that loses its parent (a pipe that the kernel closes) stops in order.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from gateway.runtime.workers.rules.restarts import Restarts

_log = structlog.get_logger("lockgate")
_SIGNALS: Final = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT})


@dataclass(frozen=True, slots=True)
class Life:
    """What a worker has of its supervisor.

    Attributes:
        parent: readable (its end) once the supervisor is gone.
        _serving: where to say that it serves.
    """

    parent: int
    _serving: int

    def serves(self) -> None:
        """Clients can connect."""
        os.write(self._serving, b"1")


class Supervisor:
    """Args.

    run: what a worker does: its index and `Life` -> its exit code. Called in the child.
    close_s: for how long workers may take to end once they were told.
    clock: seconds, monotonic.
    """

    def __init__(self, count: int, run: Callable[[int, Life], int], close_s: float, clock: Callable[[], float]) -> None:
        self._run = run
        self._clock = clock
        self._close_s = close_s
        self._rules = Restarts(count)
        self._indexes: dict[int, int] = {}  # by process id
        self._serving: dict[int, int] = {}  # by index: where a worker says that it serves
        self._alive, self._kept = os.pipe()  # nobody writes; the end of this process closes it
        self._kill_at: float | None = None
        self._mask: set[signal.Signals] = set()

    def run(self) -> int:
        """Until a signal, or a worker that could not even start, ends it. Returns the exit code."""
        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS))  # type: ignore[arg-type]
        try:
            while (code := self._rules.exit_code) is None:
                for index in self._rules.due(self._clock()):
                    self._start(index)
                self._wait()
            return code
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            os.close(self._alive)
            os.close(self._kept)

    def _start(self, index: int) -> None:
        told, tells = os.pipe()
        os.set_blocking(told, False)
        pid = os.fork()
        if pid == 0:
            os.close(told)
            self._be_worker(index, tells)
        os.close(tells)
        self._indexes[pid], self._serving[index] = index, told
        self._rules.started(index, self._clock())
        _log.info("worker started", worker=index + 1, pid=pid)

    def _be_worker(self, index: int, tells: int) -> None:
        """In the child, which ends here: what the parent does at its exit is none of its business."""
        code = 1
        try:
            os.close(self._kept)
            for told in self._serving.values():
                os.close(told)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            code = self._run(index, Life(self._alive, tells))
        except BaseException:  # noqa: BLE001 - the process ends with it
            _log.exception("a worker failed", worker=index + 1)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _wait(self) -> None:
        """For a signal, or for the time to start a worker, or to end them all the hard way."""
        now = self._clock()
        waits = [self._rules.wait_s(now), None if self._kill_at is None else max(0.0, self._kill_at - now)]
        known = [wait_s for wait_s in waits if wait_s is not None]
        found = signal.sigtimedwait(_SIGNALS, min(known)) if known else signal.sigwaitinfo(_SIGNALS)
        if found is not None and found.si_signo in (signal.SIGTERM, signal.SIGINT):
            self._stop()
        self._reap()
        if self._kill_at is not None and self._clock() >= self._kill_at:
            _log.error("workers did not come to their end in time: they are killed", workers=len(self._indexes))
            self._tell(signal.SIGKILL)
            self._kill_at = None

    def _stop(self) -> None:
        self._rules.stop()
        if self._kill_at is None:
            self._kill_at = self._clock() + self._close_s
        self._tell(signal.SIGTERM)

    def _tell(self, number: signal.Signals) -> None:
        for pid in self._indexes:  # a child that has ended is there until it is waited for
            os.kill(pid, number)

    def _reap(self) -> None:
        for index, told in self._serving.items():
            if _has_said(told):
                self._rules.serves(index)
        while self._indexes:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if pid in self._indexes:
                self._ended(self._indexes.pop(pid), os.waitstatus_to_exitcode(status))

    def _ended(self, index: int, code: int) -> None:
        told = self._serving.pop(index)
        served, was_stopping = _has_said(told), self._rules.stopping
        os.close(told)
        again_s = self._rules.ended(index, code, served=served, now=self._clock())
        if again_s is not None:
            _log.error("worker ended: it is started again", worker=index + 1, code=code, after_s=again_s)
        elif not was_stopping:
            _log.error("worker could not start: the gateway ends", worker=index + 1, code=code)
            self._stop()


def _has_said(told: int) -> bool:
    try:
        return bool(os.read(told, 1))
    except BlockingIOError:
        return False
