"""The watchdog of the event loop: turns in which nobody was served, for how long, and in what code.

Everything that a gateway promises in time (leases, pauses, heartbeats) stands on short turns of its one event loop. The
loop says every `TICK_S` that it turns; a turn that kept it for more than `STALL_S` beyond that is a **stall**. A thread
beside it looks as often, and when the loop is late takes the stack of the loop's thread: the code that keeps it. The
thread only ever waits and compares two numbers, and the loop's part is one timer: forty short calls a second.

A stall's **cause** is a folder of ours, that of the innermost frame in the stack which is ours; `other` when none is. A
turn that was long because the machine had no CPU for it is none of ours: what the thread waited for one (Linux tells,
by thread) does not count, nor does a turn in which nothing of this process ran, as when it is suspended. Such turns are
counted as `not_scheduled` alone.
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
"""A turn that is longer is a stall."""
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
    """Of a stack: where it is, and in which function."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file.removeprefix(f'{_ROOT}/')}:{self.line} {self.function}"


class Stalls(NamedTuple):
    """Of one cause: how many there were, how long they took together, and the longest, in seconds."""

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
    """Of one event loop. `turned` is called on it, `look` in the thread; neither waits for the other.

    Args:
        clock: monotonic seconds.
        cpu: seconds of CPU that this process has had, in all its threads.
        waited: seconds that the loop's thread has waited for a CPU, ready to run.
        stack: the loop's thread now, innermost frame first.
        told: called with each stall that is logged: (cause, seconds, stack, those of its cause that were not logged).
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
        """Stalls of ours so far, whatever their cause."""
        return sum(each.turns for cause, each in self._found.items() if cause != NOT_SCHEDULED)

    def turned(self, after_s: float = TICK_S) -> None:
        """The loop turns, and was to do so `after_s` seconds after the last time."""
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
        """In the thread: is the loop late? What it does then is remembered, once for each late turn."""
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
    """Watch the running loop until cancelled. `found` is handed the watch, whose counts are read from then on."""
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
    """Of the thread that makes it: for how long it was ready to run without a CPU (sched-stats.rst of Linux)."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._file = -1

    def seconds(self) -> float:
        """0.0 where nobody tells."""
        if self._file < 0:
            return 0.0
        return int(os.pread(self._file, 64, 0).split()[1]) / 1e9

    def close(self) -> None:
        """Asked no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _look(watch: LoopWatch, over: threading.Event) -> None:
    while not over.wait(TICK_S):
        watch.look()


def stack_of(thread: int) -> tuple[Frame, ...]:
    """What a thread does now, innermost frame first; the last frames only, and nothing of their values."""
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
