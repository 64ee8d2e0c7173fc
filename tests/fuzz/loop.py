"""The simulation's event loop, which also knows what each client's bytes cost the gateway.

Every handle that runs on the gateway is timed; when `timing` is set in CPU of this thread: what the machine does beside
it does not count. Who caused it stands in its context (`CAUSE`): tasks and callbacks inherit it from the
connection whose bytes began them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, Protocol

from tests.simulation.kernel.loop import SimHandle, SimLoop
from tests.simulation.kernel.network import _accept


class Cause(Protocol):
    """A connection, or a REST request, from outside.

    `accepted`: who made it has shown who they are. `touched`: what was done for it in the gateway before that, and
    `login_bytes`: the longest request that has come to the target.
    """

    accepted: bool
    touched: list[str]
    login_bytes: int


CAUSE: ContextVar[Cause | None] = ContextVar("CAUSE", default=None)
"""Who caused what runs now. None in what the gateway does by itself."""


class FuzzLoop(SimLoop):
    """Args.

    timed: the node whose work is timed.

    Attributes:
        timing: by CPU, which costs two system calls a handle, so it is set only where something seems to be slow.
        spent_ns: CPU of that node for whoever is outside.
        longest_ns, longest: its longest handle since this was set back, and what that was.
    """

    def __init__(self, seed: int, timed: str) -> None:
        self._timed_node = timed
        self.timing = False
        self.spent_ns = 0
        self.longest_ns = 0
        self.longest = ""
        super().__init__(seed)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> SimHandle:
        """As asyncio's."""
        if callback is _accept and context is not None:  # who connects is who causes what is done on the connection
            made: Any = args[1]
            cause = made.peer.context.get(CAUSE)
            context.run(CAUSE.set, cause)
        return self._watched(super().call_soon(callback, *args, context=context))

    call_soon_threadsafe = call_soon

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> SimHandle:
        """As asyncio's."""
        return self._watched(super().call_at(when, callback, *args, context=context))

    def caused_timers(self) -> list[str]:
        """What the data plane is still to do for somebody outside."""
        found = []
        for _, _, timer in self._timers:
            callback = timer.args[0] if timer.callback == self._timed else timer.callback
            if not timer.is_cancelled and timer.context.get(CAUSE) is not None and _is_of_data_plane(callback):
                found.append(_named(callback))
        return found

    def _watched(self, handle: SimHandle) -> SimHandle:
        # Whoever delivers a segment has its handle belong to the network, but its context is the receiver's.
        if handle.node.name == self._timed_node:
            handle.args = (handle.callback, *handle.args)
            handle.callback = self._timed
        return handle

    def _timed(self, callback: Callable[..., object], *args: Any) -> None:
        clock = time.thread_time_ns if self.timing else time.perf_counter_ns
        began = clock()
        try:
            callback(*args)
        finally:
            took = clock() - began
            if self.timing and CAUSE.get() is not None:
                self.spent_ns += took
            if took > self.longest_ns:
                self.longest_ns, self.longest = took, _named(callback)


def _is_of_data_plane(callback: Callable[..., object]) -> bool:
    return str(getattr(callback, "__module__", "")).startswith("gateway.proxy")


def _named(callback: Callable[..., object]) -> str:
    owner = getattr(callback, "__self__", None)
    name = getattr(owner, "get_name", None)
    return str(name()) if name is not None else getattr(callback, "__qualname__", repr(callback))
