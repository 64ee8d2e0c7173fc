"""One run of the demo: who and what takes part, and the one way to wait for anything."""

from __future__ import annotations

import fcntl
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from demo.checker import TopicLog, Window
from demo.clusters import new_cluster
from demo.errors import DemoError
from demo.fleet import Fleet
from demo.history import Side
from demo.lockgate import Lockgate
from demo.readback import log_ends
from demo.roster import cast
from demo.settings import Settings
from demo.view import View

POLL_S = 0.05
LAST_JOBS_S = 15.0  # how long a cleaning up waits for what was begun in the background
T = TypeVar("T")


class Run:
    """The clusters, the clients, the gateway once it runs, and what the acts leave for the judge.

    Without a gateway (`direct`) one cluster is both source and target.
    """

    def __init__(self, settings: Settings, view: View) -> None:
        self.settings = settings
        self.view = view
        self._lock = _lock(settings.folder)
        self.logs = settings.folder / "logs"
        self.classes = settings.folder / "classes"
        for folder in (self.logs, self.classes):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self.fleet = Fleet(cast(settings, self.classes), self.logs)
        self.target = new_cluster("target", settings.target_kafka, settings.folder)
        self.source = self.target if settings.direct else new_cluster("source", settings.source_kafka, settings.folder)
        self.gateway: Lockgate | None = None
        self.source_log = TopicLog({})
        self.promote: Window | None = None
        self.killed_at_ms: int | None = None
        self._counted = (time.monotonic(), 0)
        self._jobs: list[_Job[Any]] = []

    @property
    def moved_to(self) -> str:
        """`bootstrap.servers` of the clients once moved."""
        return self.gateway.bootstrap if self.gateway is not None else self.target.bootstrap

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

    def caught_up(self, where: str, timeout_s: float) -> bool:
        """Wait until every group has read to the topic's ends as of now on a cluster; False when the time is up."""
        ends = log_ends(where, self.settings.topic, self.settings.partitions)
        groups = {member.part.group for member in self.fleet.members()}
        return self.within(lambda: all(self.fleet.caught_up(group, ends) for group in groups), timeout_s)

    def clean_up(self) -> None:
        """Stop whatever still runs, by process id. Never raises."""
        self.fleet.kill()
        if self.gateway is not None:
            with suppress(DemoError):  # gone is gone, cleanly or not
                self.gateway.stop(5.0)
        clusters = {id(cluster): cluster for cluster in (self.source, self.target)}.values()
        deadline = time.monotonic() + LAST_JOBS_S
        while True:  # a job that was cut short may only now be starting a broker
            for cluster in clusters:
                cluster.kill()
            if not any(job.is_alive() for job in self._jobs) or time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        for cluster in clusters:
            if not self.settings.keep_data:
                shutil.rmtree(cluster.folder / "data", ignore_errors=True)

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

    def covered(self, group: str, side: Side) -> bool:
        """True when the group's members on a side have all partitions among them, or when there are none.

        Without a gateway both sides are one group.
        """
        members = [member for member in self.fleet.members(group) if member.side is side or self.settings.direct]
        assigned = [partition for member in members for partition in member.assigned]
        return not members or sorted(assigned) == list(range(self.settings.partitions))


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
