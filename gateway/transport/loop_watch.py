"""The watchdog of the event loop: reports turns that block it, how long, and the code that blocks.

All timing promises of a gateway (leases, pauses, heartbeats) depend on short turns of its one event loop. The loop
reports every `TICK_S` that it turns; a turn that is more than `STALL_S` late is a **stall**. A thread checks as often,
and when the loop is late takes the stack of the loop's thread: the code that blocks it. The thread only waits and
compares two numbers, and the loop's part is one timer: forty short calls a second.

A stall's **cause** is a folder of this project, that of the innermost frame in the stack that belongs to it; `other`
when none does. A turn that was long because the machine had no CPU for it is not our fault: time that the thread waited
for a CPU (Linux reports it per thread) does not count, nor does a turn in which this process did not run at all, as
when it is suspended. Such turns count only as `not_scheduled`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import structlog

STALL_S: Final = 0.05
"""A turn that is this much late is a stall."""
TICK_S: Final = 0.025
_LOGGED_EVERY_S: Final = 10.0  # per cause; the others are counted only
_FRAMES: Final = 12
_ROOT: Final = Path(__file__).resolve().parents[2]
_ROOMS: Final = (
    "access", "api", "console", "cutover", "fleet", "groups", "kafka", "links", "migration", "mirror", "operations",
    "proxy", "runtime", "schemas", "state", "telemetry", "topics", "transport",
)  # fmt: skip
OTHER: Final = "other"
NOT_SCHEDULED: Final = "not_scheduled"
CAUSES: Final = (*_ROOMS, "protocol", OTHER, NOT_SCHEDULED)
"""All values of the metric's label."""

_log = structlog.get_logger("lockgate.loop")


class Frame(NamedTuple):
    """One frame of a stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file.removeprefix(f'{_ROOT}/')}:{self.line} {self.function}"


class Stalls(NamedTuple):
    """The stalls of one cause: their number, their total length and the longest one, in seconds."""

    turns: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0


def cause_of(stack: Sequence[Frame]) -> str:
    """One of CAUSES. `stack`: innermost frame first."""
    for frame in stack:
        parts = Path(frame.file.removeprefix(f"{_ROOT}/")).parts
        if parts[:1] == ("protocol",):
            return "protocol"
        if parts[:1] == ("gateway",) and len(parts) > 1:
            room = parts[1].removesuffix(".py")
            return room if room in _ROOMS else OTHER
    return OTHER


class LoopWatch:
    """Watches one event loop. `turned` is called on it, `look` in the thread; neither waits for the other.

    Args:
        clock: monotonic seconds.
        cpu: CPU seconds that this process has used, in all its threads.
        waited: seconds that the loop's thread, ready to run, has waited for a CPU.
        stack: the present stack of the loop's thread, innermost frame first.
        told: called with each stall to log: (cause, seconds, stack, stalls of this cause not logged before it).
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
        waited: Callable[[], float] = lambda: 0.0,
        stack: Callable[[], Sequence[Frame]] = tuple,
        told: Callable[[str, float, Sequence[Frame], int], None] | None = None,
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._waited = waited
        self._stack = stack
        self._told = told or _logged
        self._turned, self._cpu_then, self._waited_then = clock(), cpu(), waited()
        self._seen: tuple[float, Sequence[Frame]] = -1.0, ()  # the turn that was late, and what it was doing
        self._found: dict[str, Stalls] = {}
        self._logged_at: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}
        self.by_cause: Mapping[str, Stalls] = MappingProxyType(self._found)

    @property
    def count(self) -> int:
        """The number of stalls so far, without `not_scheduled`."""
        return sum(each.turns for cause, each in self._found.items() if cause != NOT_SCHEDULED)

    def turned(self, after_s: float = TICK_S) -> None:
        """The loop turns; this was due `after_s` seconds after the last time."""
        now, cpu, waited = self._clock(), self._cpu(), self._waited()
        then, cpu_then, waited_then = self._turned, self._cpu_then, self._waited_then
        self._turned, self._cpu_then, self._waited_then = now, cpu, waited
        late_s = now - then - after_s
        if late_s > STALL_S:
            seen, stack = self._seen
            stack = stack if seen == then else ()
            ran = bool(stack) or cpu - cpu_then > STALL_S
            ours = ran and late_s - (waited - waited_then) > STALL_S
            self._stalled(now, late_s, stack, cause_of(stack) if ours else NOT_SCHEDULED)

    def look(self) -> None:
        """Called in the thread: if the loop is late, remember its stack, once for each late turn."""
        turned = self._turned
        if self._clock() - turned - TICK_S > STALL_S and self._seen[0] != turned:
            self._seen = turned, self._stack()

    def _stalled(self, now: float, late_s: float, stack: Sequence[Frame], cause: str) -> None:
        turns, total_s, longest_s = self._found.get(cause, Stalls())
        self._found[cause] = Stalls(turns + 1, total_s + late_s, max(longest_s, late_s))
        if now - self._logged_at.get(cause, -_LOGGED_EVERY_S) < _LOGGED_EVERY_S:
            self._unlogged[cause] = self._unlogged.get(cause, 0) + 1
            return
        self._logged_at[cause] = now
        self._told(cause, late_s, stack, self._unlogged.pop(cause, 0))


async def keep_watching(found: Callable[[LoopWatch], None]) -> None:
    """Watch the running loop until cancelled. `found` gets the watch, to read its counts."""
    thread = threading.get_ident()
    waits = _WaitsForCpu()
    watch = LoopWatch(waited=waits.seconds, stack=lambda: stack_of(thread))
    found(watch)
    over = threading.Event()
    looking = threading.Thread(target=_look, args=(watch, over), name="loop-watch", daemon=True)
    looking.start()
    try:
        while True:
            await asyncio.sleep(TICK_S)
            watch.turned()
    finally:
        over.set()
        waits.close()


class _WaitsForCpu:
    """How long the thread that creates this was ready to run without a CPU (sched-stats.rst of Linux)."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._file = -1

    def seconds(self) -> float:
        """The seconds so far; 0.0 where the system does not report them."""
        if self._file < 0:
            return 0.0
        return int(os.pread(self._file, 64, 0).split()[1]) / 1e9

    def close(self) -> None:
        """Stop reading them."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _look(watch: LoopWatch, over: threading.Event) -> None:
    while not over.wait(TICK_S):
        watch.look()


def stack_of(thread: int) -> tuple[Frame, ...]:
    """A thread's present stack, innermost frame first; only the last frames, without any values."""
    frame = sys._current_frames().get(thread)
    walked = traceback.walk_stack(frame) if frame is not None else ()
    found = [Frame(at.f_code.co_filename, line, at.f_code.co_name) for at, line in walked]
    return tuple(found[:_FRAMES])


def _logged(cause: str, late_s: float, stack: Sequence[Frame], unlogged: int) -> None:
    _log.warning(
        "the event loop stood still",
        cause=cause,
        ms=round(late_s * 1000),
        stack="\n".join(str(frame) for frame in stack),  # structlog shows one text under this name
        not_logged_before=unlogged,
    )
