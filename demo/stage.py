"""What every run is made of: two clusters, clients, a gateway, and the one way to wait for anything."""

from __future__ import annotations

import fcntl
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from demo.commands import Part
from demo.errors import DemoError
from demo.fleet import Fleet
from demo.lockgate import Lockgate
from demo.settings import SILENCE_S
from demo.view import View
from gateway.devcluster import DevCluster

POLL_S = 0.05
LAST_JOBS_S = 15.0  # how long a cleaning up waits for what was begun in the background
T = TypeVar("T")


class Stage:
    """The clusters, the clients, the gateway once it runs. Holds its folder for this process alone.

    Attributes:
        logs, classes: folders for what the processes write, and for compiled Java clients.
    """

    def __init__(self, folder: Path, view: View, *, keep_data: bool) -> None:
        self.view = view
        self._keep_data = keep_data
        self._lock = _lock(folder)
        self.logs = folder / "logs"
        self.classes = folder / "classes"
        for made in (self.logs, self.classes):
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir(parents=True)
        self.fleet: Fleet
        self.source: DevCluster
        self.target: DevCluster
        self.gateway: Lockgate | None = None
        self._counted = (time.monotonic(), 0)
        self._jobs: list[_Job[Any]] = []

    def cast(self, parts: Sequence[Part], source: DevCluster, target: DevCluster, silence_s: float = SILENCE_S) -> None:
        """Who takes part. `silence_s`: of a producer, as in `Client`."""
        self.fleet = Fleet(parts, self.logs, silence_s)
        self.source, self.target = source, target

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait for a condition; meanwhile nothing that should run may end.

        Raises:
            DemoError: The time was up, the gateway or a client ended, or a producer fell silent.
        """
        if not self.within(condition, timeout_s):
            raise DemoError(f"waited {timeout_s:.0f} s for {what}")

    def within(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """As `until`, but False when the time is up."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._turn()
            if condition():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)

    def in_background(self, work: Callable[[], T], what: str, timeout_s: float) -> T:
        """Run something that blocks in a thread, and wait for it as for any other condition.

        Raises:
            DemoError: As `until`; and whatever `work` raises.
        """
        return self.at_once([work], what, timeout_s)[0]

    def at_once(self, works: Sequence[Callable[[], T]], what: str, timeout_s: float) -> list[T]:
        """As `in_background`, for several side by side."""
        jobs = [_Job(work) for work in works]
        self._jobs += jobs
        for job in jobs:
            job.start()
        self.until(lambda: not any(job.is_alive() for job in jobs), what, timeout_s)
        return [job.result() for job in jobs]

    def pause(self, seconds: float) -> None:
        """Let the traffic go on for some time."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end, "the time to pass", seconds + 5)

    def clean_up(self) -> None:
        """Stop whatever still runs, by process id. Never raises."""
        self.fleet.kill()
        if self.gateway is not None:
            with suppress(DemoError):  # gone is gone, cleanly or not
                self.gateway.stop(5.0)
        clusters = self._clusters()
        deadline = time.monotonic() + LAST_JOBS_S
        while True:  # a job that was cut short may only now be starting a broker
            for cluster in clusters:
                cluster.kill()
            if not any(job.is_alive() for job in self._jobs) or time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        for cluster in clusters:
            if not self._keep_data:
                shutil.rmtree(cluster.folder / "data", ignore_errors=True)

    def _clusters(self) -> list[DevCluster]:
        """All that may run."""
        return list({id(cluster): cluster for cluster in (self.source, self.target)}.values())

    def _turn(self) -> None:
        self.fleet.follow()
        self.fleet.check()
        if self.gateway is not None:
            self.gateway.check()
        self._count()
        self.view.draw()

    def _count(self) -> None:
        now, (before, count) = time.monotonic(), self._counted
        if now - before >= 1.0:
            total = self.fleet.acknowledged()
            reads = sum(member.read for member in self.fleet.members())
            rate = (total - count) / (now - before)
            self.view.traffic = f"   {total:,} acknowledged ({rate:,.0f}/s), {reads:,} read by all members"
            self._counted = (now, total)


def _lock(folder: Path) -> IO[str]:
    """Keep the folder for this process: a second demo in it would take the first one's brokers for leftovers."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = (folder / ".lock").open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise DemoError(f"another demo is running in {folder}") from error
    return handle


class _Job(threading.Thread, Generic[T]):
    """A daemon thread that keeps its result: a failed demo must not wait for it."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._result: T | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._result = self._work()
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the result
            self._error = error

    def result(self) -> T:
        """What the work returned; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # set whenever there was no error
