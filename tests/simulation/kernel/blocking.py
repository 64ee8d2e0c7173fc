"""Blocking code in virtual time: it runs in a greenlet, and `wait` lets the loop go on until an awaitable is done.

def commit() -> int:                        # called by run_in_executor
    return blocking.wait(ask_the_broker())  # other tasks run meanwhile
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import greenlet

from tests.simulation.kernel.node import CURRENT, Node

if TYPE_CHECKING:
    from tests.simulation.kernel.loop import SimLoop

_T = TypeVar("_T")
_DEFAULT_WORKERS = 32


class Worker:
    """One call of `run_in_executor`, from its first step on."""

    def __init__(self, node: Node, run: Callable[[], None]) -> None:
        self.node = node
        self.greenlet = greenlet.greenlet(run)
        self.greenlet.worker = self

    def close(self) -> None:
        """End it where it waits."""
        if self.greenlet and not self.greenlet.dead:
            self.greenlet.throw(greenlet.GreenletExit)


def wait(awaitable: Awaitable[_T]) -> _T:
    """Block until the awaitable is done; its result, or its exception raised here.

    Raises:
        RuntimeError: not called by something that `run_in_executor` runs.
    """
    worker: Worker | None = getattr(greenlet.getcurrent(), "worker", None)
    if worker is None:
        if isinstance(awaitable, Coroutine):
            awaitable.close()
        raise RuntimeError("blocking.wait: only in what run_in_executor runs")
    loop = asyncio.get_running_loop()
    task = loop.create_task(_awaited(awaitable), name=f"blocking {getattr(awaitable, '__qualname__', '')}")
    task.add_done_callback(lambda _task: worker.greenlet.switch())
    worker.greenlet.parent.switch()  # to the event loop
    return task.result()


def sleep(seconds: float) -> None:
    """`time.sleep` in virtual time."""
    wait(asyncio.sleep(seconds))


async def _awaited(awaitable: Awaitable[_T]) -> _T:
    return await awaitable


class _Job:
    """One call, from when it was asked for."""

    def __init__(self, executors: Executors, pool: _Pool, call: Callable[[], Any]) -> None:
        self.answer: asyncio.Future[Any] = executors.loop.create_future()
        self._executors = executors
        self._pool = pool
        self._call = call
        self._context = copy_context()
        self._node = CURRENT.get(executors.loop.lab)

    def soon(self) -> None:
        """A worker is free."""
        self._executors.loop.call_soon(self._begin, context=self._node.context)

    def _begin(self) -> None:
        if self.answer.cancelled():  # before it had begun, as with threads
            self._pool.next()
            return
        worker = Worker(self._node, self._run)
        self._executors.workers[worker] = None
        worker.greenlet.switch()

    def _run(self) -> None:
        worker: Worker = greenlet.getcurrent().worker
        try:
            self._context.run(self._work)
        finally:
            self._executors.workers.pop(worker, None)
            self._pool.next()

    def _work(self) -> None:
        try:
            result = self._call()
        except greenlet.GreenletExit:
            raise
        except BaseException as exc:  # noqa: BLE001 - it is the caller's
            if not self.answer.done():
                self.answer.set_exception(exc)
        else:
            if not self.answer.done():
                self.answer.set_result(result)


class _Pool:
    """One executor's workers. `of`: what it stands for; kept, so that nothing else gets its id."""

    def __init__(self, of: object, limit: int) -> None:
        self.of = of
        self._free = limit
        self._waiting: deque[_Job] = deque()

    def add(self, job: _Job) -> None:
        """Begin it when a worker is free."""
        self._waiting.append(job)
        if self._free:
            self._free -= 1
            self.next()

    def next(self) -> None:
        """A worker is free."""
        if self._waiting:
            self._waiting.popleft().soon()
        else:
            self._free += 1


class Executors:
    """The loop's executors: who of them is busy. Only their number of workers counts; no thread is ever started."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.workers: dict[Worker, None] = {}
        self._pools: dict[int, _Pool] = {}

    def run(self, executor: Any, func: Callable[..., _T], *args: Any) -> asyncio.Future[_T]:
        """See `SimLoop.run_in_executor`."""
        of = executor if executor is not None else CURRENT.get(self.loop.lab)
        pool = self._pools.get(id(of))
        if pool is None:
            pool = self._pools[id(of)] = _Pool(of, getattr(executor, "_max_workers", _DEFAULT_WORKERS))
        job = _Job(self, pool, partial(func, *args))
        pool.add(job)
        return job.answer

    def of(self, node: Node) -> list[Worker]:
        """The workers of a node that are not done."""
        return [worker for worker in self.workers if worker.node is node]

    def everybody(self) -> list[Worker]:
        """All that are not done."""
        return list(self.workers)
