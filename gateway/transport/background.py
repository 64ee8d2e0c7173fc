"""Background work that no task awaits: named, kept, ended together, and never silently dead.

Pauses end together (`together`), so that an idle process wakes up once for all of them. A gateway has some twenty loops
that run once a second. A run costs next to nothing; the wake-up is expensive, because the process's memory has left the
processor's caches. A pause begins when its loop's run has ended, so after a minute twenty loops would be twenty
wake-ups. So pauses of a second and more end at whole seconds of the event loop's clock, or at half seconds where a
whole one would come too early. A loop that runs once a second reaches the whole seconds within two runs, and stays
there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import structlog

STEP_S: Final = 0.5
SHORTER_S: Final = 0.6
"""The most by which a pause is shortened: more than half a second, or a run that ends some milliseconds after a half
second would never reach the whole ones."""
_EARLY_S: Final = 0.005
"""How early a timer may fire. It still counts as in time, or the next pause would be a step shorter."""


def together(seconds: float, now: float) -> float:
    """How long to pause at `now`, on the event loop's clock, to wake up with others.

    At most `seconds`, give or take a few milliseconds, and at most `SHORTER_S` below that. A pause of less than a
    second is not changed.
    """
    if seconds < 2 * STEP_S:
        return seconds
    end = now + seconds + _EARLY_S
    over = end % (2 * STEP_S)
    return end - (over if over < SHORTER_S else over - STEP_S) - now


_log = structlog.get_logger("lockgate.control")
AGAIN_S = 1.0
deaths: dict[str, int] = {}
"""How often work that must run all the time has failed and was restarted, by name."""


async def kept_running(work: Callable[[], Awaitable[None]], name: str) -> None:
    """Run `work`, which should never fail. If it does, log the failure and start it again."""
    while True:
        try:
            return await work()
        except Exception as exc:  # noqa: BLE001 - whatever it is, nobody else would do this work
            deaths[name] = deaths.get(name, 0) + 1
            error = f"{type(exc).__name__}: {exc}"
            _log.error("background work failed and is begun again", work=name, error=error, exc_info=True)
        await asyncio.sleep(AGAIN_S)


class Background:
    """A set of tasks with one end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work`. An exception is logged, and affects nothing else."""
        task = asyncio.create_task(_guarded(work, name), name=name)
        task.add_done_callback(lambda _: work.close())  # cancelled before its first step, it was never awaited
        self.keep(task)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a task whose exception its creator handles."""
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved, or asyncio would log it

    def every(self, seconds: float | Callable[[], float], work: Callable[[], Awaitable[None]], name: str) -> None:
        """Run `work` repeatedly, first after `seconds`, then after pauses of that length, adjusted by `together`. A
        failure is logged, not final."""
        pause = seconds if callable(seconds) else lambda: seconds

        async def loop() -> None:
            clock = asyncio.get_running_loop().time
            await asyncio.sleep(pause())
            while True:
                await _guarded(work(), name)
                await asyncio.sleep(together(pause(), clock()))

        self.spawn(loop(), name)

    async def close(self) -> None:
        """Cancel all tasks, also those that they start while ending, and wait for them."""
        while tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._tasks.difference_update(tasks)


async def _guarded(work: Awaitable[None], name: str) -> None:
    try:
        await work
    except Exception as exc:  # noqa: BLE001 - the last line of defence of a task nobody awaits
        _log.error("background work failed", work=name, error=f"{type(exc).__name__}: {exc}", exc_info=True)
