"""An event loop whose clock jumps: nothing waits, and how fast the machine is changes no test.

With nothing ready, time goes on to the next timer at once. For tests without sockets, whose limits are then
as long as they say, however long their steps take; `tests/simulation/kernel/loop.py` is for whole gateways.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`time()`: seconds that its timers have waited for."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Jumps(self))

    def time(self) -> float:
        """As asyncio's."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Nothing else is to be done meanwhile."""
        self._now += seconds

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """What a thread would compute is done at once: time would jump over the thread, which takes real time."""
        found: asyncio.Future[Any] = self.create_future()
        try:
            found.set_result(func(*args))
        except Exception as exc:  # noqa: BLE001 - whoever waits gets it
            found.set_exception(exc)
        return found


class _Jumps(selectors.DefaultSelector):
    """Sees what is there, and then lets time pass instead of waiting."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As a selector's. Without a timer nothing can ever happen: whoever waits has hung."""
        found = super().select(0)
        if found or timeout == 0:
            return found
        if timeout is None:
            raise RuntimeError("the test waits for what nobody will do")
        self._loop.pass_time(timeout)
        return found
