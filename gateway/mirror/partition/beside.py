"""The thread in which batches are opened that are too much for the event loop: one for all mirrors of a gateway.

Python runs one thread at a time, so a thread that computes holds the event loop up as well: each time that the loop
comes back from the system, which is several times a request. So this one works for half a millisecond and rests for
four times as long. It has a fifth of the time then, which is a hundred thousand records a second, and the loop is not
made to wait in the rest. Codecs work while others run; what they write to is made of fresh pages, which come
meanwhile (`protocol/batch/compression.py`): zeros for 64 MiB are 40 ms in which the loop would wait at each turn.
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
"""Times what was worked."""
_REST_AT_MOST_S: Final = 1.0


class Paced:
    """`spend` rests after each slice. `cpu`: seconds of CPU that the thread has had."""

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
    """Carry it out, and tell the runner."""
    try:
        opened = await asyncio.get_running_loop().run_in_executor(
            _thread(), lambda: command.work(beside(Paced().spend))
        )
    except Exception as exc:  # noqa: BLE001 - this partition's fault stays this partition's
        runner.worked(command, exc)
    else:
        runner.worked(command, opened)


async def last_batch(batches: Sequence[memoryview]) -> LastBatch:
    """What is compared of batches: worked out at once where that is little, else in the thread."""
    try:
        return LastBatch.of(batches, on_loop=True)
    except TooMuch:
        return await asyncio.get_running_loop().run_in_executor(_thread(), LastBatch.of, batches)


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="mirror-batches")
