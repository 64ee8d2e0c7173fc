"""The thread in which batches are opened that are too much for the event loop: one for all mirrors of a gateway.

Python runs one thread at a time, so a thread that computes holds the event loop up as well, for five milliseconds each
time that the loop has something to do. This one rests between slices of a millisecond or two; then the loop has its
turn at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Final

from gateway.mirror.partition.rules.commands import WorkBeside
from gateway.mirror.partition.rules.opened import beside

if TYPE_CHECKING:
    from gateway.mirror.partition.runner import PartitionRunner

_SLICE: Final = 1_024  # units of work
_REST_S: Final = 0.0005


class Paced:
    """`spend` rests after each slice."""

    def __init__(self, rest: Callable[[float], None] = time.sleep) -> None:
        self._rest = rest
        self._done = 0

    def spend(self, count: int) -> None:
        """See `protocol.batch.work.Spend`."""
        self._done += count
        if self._done >= _SLICE:
            self._done = 0
            self._rest(_REST_S)


async def work_beside(runner: PartitionRunner, command: WorkBeside) -> None:
    """Carry it out, and tell the runner."""
    terms = beside(Paced().spend)
    try:
        opened = await asyncio.get_running_loop().run_in_executor(_thread(), command.work, terms)
    except Exception as exc:  # noqa: BLE001 - this partition's fault stays this partition's
        runner.worked(command, exc)
    else:
        runner.worked(command, opened)


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="mirror-batches")
