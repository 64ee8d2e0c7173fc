"""Background work that nobody awaits: named, kept, ended together, and never silently dead.

Pauses end together (`together`), so that a process at rest wakes up for all of them at once.
A gateway has some twenty things that it looks at once a second. A look itself is next to nothing; what costs is to be
woken: the process's memory has fallen out of the processor's caches since the last time. Each pause for itself begins
when its look has ended, so after a minute twenty looks are twenty wake-ups. So pauses of a second and more end at whole
seconds of the event loop's clock, or at half ones where a whole one would come too early. What is looked at once a
second comes to the whole seconds so within two looks, and stays there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import structlog

STEP_S: Final = 0.5
SHORTER_S: Final = 0.6
"""The most that a pause is shortened by: more than half a second, or a look that comes to its end some milliseconds
after a half second would never get to the whole ones."""
_EARLY_S: Final = 0.005
"""A timer may go off so early. It counts as in time, or the next pause would be a step shorter."""


def together(seconds: float, now: float) -> float:
    """How long to pause at `now`, on the event loop's clock, to wake up with others.

    At most `seconds`, but for a few milliseconds, and at most `SHORTER_S` below that. A pause of less than a second
    stays as it is.
    """
    if seconds < 2 * STEP_S:
        return seconds
    end = now + seconds + _EARLY_S
    over = end % (2 * STEP_S)
    return end - (over if over < SHORTER_S else over - STEP_S) - now


_log = structlog.get_logger("lockgate.control")
AGAIN_S = 1.0
deaths: dict[str, int] = {}
"""How often what is to run all the time has failed and was begun again, by name."""


async def kept_running(work: Callable[[], Awaitable[None]], name: str) -> None:
    """Run `work`, which never fails by its own account. When it does, that is logged, and it is begun again."""
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
        """Run `work`; an exception that reaches its end is logged, it stops nothing else."""
        task = asyncio.create_task(_guarded(work, name), name=name)
        task.add_done_callback(lambda _: work.close())  # cancelled before its first step, it was never awaited
        self.keep(task)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold on to a task whose exception somebody else looks at."""
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # taken: asyncio would else complain of one that nobody awaited

    def every(self, seconds: float | Callable[[], float], work: Callable[[], Awaitable[None]], name: str) -> None:
        """Run `work` again and again, first after `seconds`, then so long after its last end as `together` lets it. A
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
        """Cancel what runs, and what that begins in its end, and wait for all of it."""
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
