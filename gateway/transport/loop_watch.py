"""The watchdog of the event loop: turns in which nobody was served, for how long, and in what code.

Everything that a gateway promises in time (leases, pauses, heartbeats) stands on short turns of its one event loop. The
loop says every `TICK_S` that it turns; a turn that kept it for more than `STALL_S` beyond that is a **stall**. A thread
beside it looks as often, and when the loop is late takes the stack of the loop's thread: the code that keeps it. The
thread only ever waits and compares two numbers, and the loop's part is one timer: forty short calls a second.

A stall's **cause** is a folder of ours, that of the innermost frame in the stack which is ours; `other` when none is;
`not_scheduled` when the thread had the CPU for less than half of it: the machine was busy or suspended, or a call
waited in the kernel.
"""

from __future__ import annotations

import asyncio
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


def cause_of(stack: Sequence[Frame], cpu_share: float) -> str:
    """One of CAUSES. `stack`: innermost frame first. `cpu_share`: of the stall, how much the thread had the CPU."""
    if cpu_share < 0.5:
        return NOT_SCHEDULED
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
        cpu: seconds of CPU that the loop's thread has had; asked in that thread.
        stack: the loop's thread now, innermost frame first.
        told: called with each stall that is logged: (cause, seconds, stack, those of its cause that were not logged).
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
        stack: Callable[[], Sequence[Frame]] = tuple,
        told: Callable[[str, float, Sequence[Frame], int], None] | None = None,
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._stack = stack
        self._told = told or _logged
        self._turned, self._cpu_then = clock(), cpu()
        self._seen: tuple[float, Sequence[Frame]] = -1.0, ()  # the turn that was late, and what it was doing
        self._found: dict[str, Stalls] = {}
        self._logged_at: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}
        self.by_cause: Mapping[str, Stalls] = MappingProxyType(self._found)

    @property
    def count(self) -> int:
        """Stalls so far, whatever their cause."""
        return sum(each.turns for each in self._found.values())

    def turned(self, after_s: float = TICK_S) -> None:
        """The loop turns, and was to do so `after_s` seconds after the last time."""
        now, cpu = self._clock(), self._cpu()
        then, cpu_then, self._turned, self._cpu_then = self._turned, self._cpu_then, now, cpu
        late_s = now - then - after_s
        if late_s > STALL_S:
            seen, stack = self._seen
            share = (cpu - cpu_then) / (now - then)
            self._stalled(now, late_s, stack if seen == then else (), share)

    def look(self) -> None:
        """In the thread: is the loop late? What it does then is remembered, once for each late turn."""
        turned = self._turned
        if self._clock() - turned - TICK_S > STALL_S and self._seen[0] != turned:
            self._seen = turned, self._stack()

    def _stalled(self, now: float, late_s: float, stack: Sequence[Frame], cpu_share: float) -> None:
        cause = cause_of(stack, cpu_share)
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
    watch = LoopWatch(stack=lambda: stack_of(thread))
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
