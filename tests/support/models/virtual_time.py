"""An event loop whose clock jumps: nothing waits, and how fast the machine is changes no test.

With nothing ready, time goes on to the next timer at once. For tests without sockets and threads, whose limits are then
as long as they say, however long their steps take; `tests/simulation/kernel/loop.py` is for whole gateways.
"""

from __future__ import annotations

import asyncio
import selectors


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
