"""The thread that opens batches too large for the event loop: one for all mirrors of a gateway.

Python runs one thread at a time, so a computing thread also delays the event loop, each time the loop returns from a
system call: several times per request. So this thread works for half a millisecond and rests for four times as long.
It then has a fifth of the time, enough for a hundred thousand records a second, and the loop does not wait during the
rest. Codecs run in parallel to the loop; their output buffers are fresh pages, allocated as they are written
(`protocol/batch/compression.py`): to zero 64 MiB takes 40 ms, in which the loop would wait at each turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Final

from gateway.mirror.partition.rules.commands import WorkBeside
from gateway.mirror.partition.rules.last_batch import LastBatch
from gateway.mirror.partition.rules.opened import TooMuch, beside

if TYPE_CHECKING:
    from gateway.mirror.partition.runner import PartitionRunner

SLICE_S: Final = 0.0005
RESTS: Final = 4
"""Length of a rest, in multiples of the time worked."""
_REST_AT_MOST_S: Final = 1.0


class Paced:
    """`spend` rests after each slice. `cpu`: CPU seconds that the thread has used."""

    def __init__(self, rest: Callable[[float], None] = time.sleep, cpu: Callable[[], float] = time.thread_time) -> None:
        self._rest = rest
        self._cpu = cpu
        self._began = cpu()

    def spend(self, count: int) -> None:
        """See `protocol.batch.work.Spend`."""
        worked = self._cpu() - self._began
        if worked >= SLICE_S:
            self._rest(min(worked * RESTS, _REST_AT_MOST_S))
            self._began = self._cpu()


async def work_beside(runner: PartitionRunner, command: WorkBeside) -> None:
    """Run the command in the thread, and give the runner the result or the exception."""
    try:
        opened = await asyncio.get_running_loop().run_in_executor(
            _thread(), lambda: command.work(beside(Paced().spend))
        )
    except Exception as exc:  # noqa: BLE001 - this partition's fault stays this partition's
        runner.worked(command, exc)
    else:
        runner.worked(command, opened)


async def last_batch(batches: Sequence[memoryview]) -> LastBatch:
    """The properties of batches that are compared: computed at once if that is little work, else in the thread."""
    try:
        return LastBatch.of(batches, on_loop=True)
    except TooMuch:
        return await asyncio.get_running_loop().run_in_executor(_thread(), LastBatch.of, batches)


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="mirror-batches")
