"""An event loop with a virtual clock and many nodes on it, the same for the same seed.

Nothing ready means that time jumps to the next timer. Each handle belongs to the node of its context (`CURRENT`): what
comes due on a stopped node is kept until it wakes up, what comes due on a dead one is dropped.

Code takes no time, but for what is told to `works`: the clock goes on for whatever runs then, as it would, and nothing
else of its node happens before that is over.

Why a loop of our own: async-solipsism and looptime have a virtual clock, but one process that nobody can stop, kill or
cut off from the others, and detangle and simloop ask for a newer Python than the gateway does.

    loop = SimLoop(seed=7)
    task = loop.spawn(loop.node("gw-0"), serve(), "serve")
    loop.run_until_complete(story())     # runs on the node "lab", which nobody stops
    loop.close()                         # what is left unfinished ends here, and can do no more
"""

from __future__ import annotations

import asyncio
import gc
import random
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

from tests.simulation.kernel.network import Network
from tests.simulation.kernel.node import CURRENT, Node, State

_T = TypeVar("_T")
_START_S = 1000.0
EPOCH_MS = 1_700_000_000_000
"""The wall clock where the loop's clock is 0."""
_SPINS = 200_000
_LEAST_TO_SWEEP = 256
_ENDINGS = 1000
_LEAST_WORK_S = 0.001
"""What one callback computes for less than that takes no time: a run's steps stay as they are where little is done."""


class Spinning(BaseException):
    """Work without end at one instant, or nothing left that could ever happen. A BaseException: nobody retries it."""


class _Over(BaseException):
    """Thrown into what is unfinished when a simulation ends."""


class SimHandle:
    """Stands for asyncio's Handle and TimerHandle, and knows its node. `at`: of a timer; 0 otherwise."""

    __slots__ = ("args", "at", "callback", "context", "is_cancelled", "loop", "node")

    loop: SimLoop
    at: float
    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: Context
    is_cancelled: bool
    node: Node

    def __repr__(self) -> str:
        task = getattr(self.callback, "__self__", None)
        named = getattr(self.callback, "__qualname__", None) or repr(self.callback)
        return f"{self.node.name}: {task.get_name() if isinstance(task, asyncio.Task) else named}"

    def cancel(self) -> None:
        """As asyncio's."""
        if not self.is_cancelled:
            self.is_cancelled = True
            self.callback = _nothing
            self.args = ()
            if self.at:
                self.loop.timer_cancelled()

    def cancelled(self) -> bool:
        """As asyncio's."""
        return self.is_cancelled

    def when(self) -> float:
        """As asyncio's."""
        return self.at


class SimTask(asyncio.Task[Any]):
    """A task that knows its node, and whose hash is its number: sets of tasks have the same order each time."""

    number: int
    node: Node
    context: Context

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.BaseEventLoop):
    """See the module.

    Attributes:
        rng: for the story; parts that want their own ask `random(name)`.
        lab: the node of whoever is no node: stories, faults, judges.
        unhandled: what would have been logged as an exception that nobody retrieved.
        on_work: told of each node whose event loop was kept, and for how many seconds.
    """

    def __init__(self, seed: int, spins: int = _SPINS) -> None:
        self.lab = Node("lab")
        super().__init__()
        self.seed = seed
        self.rng = self.random("loop")
        self._waking = self.random("waking")
        self.nodes: dict[str, Node] = {"lab": self.lab}
        self.unhandled: list[dict[str, Any]] = []
        self.network = Network(self)
        self.now = _START_S
        self.handled = 0
        self.on_work: list[Callable[[Node, float], None]] = []
        self._began = self._worked_s = 0.0  # the callback that runs: when, and what it has computed
        self._thread_s: float | None = None  # the same of what runs in a thread
        self._kept_by: Node | None = None  # whose event loop it keeps
        self._queue: deque[SimHandle] = deque()
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._sequence = 0
        self._cancelled_timers = 0
        self._tasks = 0
        self._spins = self._spins_allowed = spins
        self._over = False
        self._bodies: list[Node] = []
        self.set_exception_handler(lambda _loop, context: self.unhandled.append(context))
        # What is there by now, modules above all, is none of `close`'s garbage, and takes longer to look through.
        gc.freeze()

    get_debug = bool  # never; asked with each future, and this is no call of Python code

    def random(self, name: str) -> random.Random:
        """Random numbers for one purpose: what others draw does not change them."""
        return random.Random(f"{self.seed}/{name}")

    # -- nodes ---------------------------------------------------------------------------------------------------

    def node(self, name: str) -> Node:
        """The node of that name, made on first use."""
        found = self.nodes.get(name)
        if found is None:
            found = self.nodes[name] = Node(name)
        return found

    def restart(self, node: Node) -> Node:
        """A fresh process on the machine of a dead one."""
        if not node.is_in(State.DEAD):
            raise ValueError(f"{node.name} is {node.state.value}: only a dead node can be started again")
        fresh = Node(node.name)
        fresh.wall_offset_ms = node.wall_offset_ms
        fresh.next_port = node.next_port
        self.nodes[node.name] = fresh
        return fresh

    def spawn(self, node: Node, coro: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
        """Run a coroutine as a task of the node."""
        return self.create_task(coro, name=name, context=node.context.copy())

    def pause(self, node: Node) -> None:
        """SIGSTOP. What comes due from now on is kept."""
        if not (node.is_in(State.PAUSED) or node.is_in(State.DEAD)):
            node.state, node.running = State.PAUSED, False

    def wake(self, node: Node) -> None:
        """SIGCONT. What was ready or due is done, and its sockets are read: one or the other first, as it happens."""
        if not node.is_in(State.PAUSED):
            return
        node.state, node.running = State.RUNNING, True
        kept, node.kept = node.kept, []
        sockets_first = self._waking.random() < 0.5
        if not sockets_first:
            self._queue.extend(kept)
        for endpoint in tuple(node.endpoints):
            endpoint.woken()
        if sockets_first:
            self._queue.extend(kept)

    def kill(self, node: Node) -> None:
        """SIGKILL. No `finally` runs, ports refuse, and the peers learn it from the network."""
        if node.is_in(State.DEAD):
            return
        node.state, node.running = State.DEAD, False
        node.kept.clear()
        node.remains += [task for task in asyncio.all_tasks(self) if isinstance(task, SimTask) and task.node is node]
        self._bodies.append(node)
        node.servers.clear()
        for endpoint in tuple(node.endpoints):
            endpoint.died()

    # -- work ----------------------------------------------------------------------------------------------------

    def works(self, seconds: float) -> float:
        """What runs has computed for so long: by its own clock it is later now, and its node does nothing meanwhile.

        Returns:
            What the same callback has computed so far; 0 where that takes no time of an event loop.
        """
        node = CURRENT.get(self.lab)
        if self._thread_s is not None:
            self._thread_s += seconds
            return 0.0
        if node.takes_time and (node.running or (node is self._kept_by and node.is_in(State.COMPUTING))):
            if not self._worked_s:
                self._began = self.now
            self._worked_s += seconds
            if self._worked_s >= _LEAST_WORK_S:
                self._kept_by = node
                node.state, node.running = State.COMPUTING, False
                self.now = node.computes_until = self._began + self._worked_s
            return self._worked_s
        return 0.0

    def _worked(self, now: float) -> None:
        """A callback that has computed is over: for the others it is as late as it was."""
        node, seconds = self._kept_by, self._worked_s
        self.now, self._worked_s, self._kept_by = now, 0.0, None
        if node is None:
            return
        if node.is_in(State.COMPUTING):
            self.call_at(node.computes_until, self._has_computed, node, context=self.lab.context)
        for told in self.on_work:
            told(node, seconds)

    def _has_computed(self, node: Node) -> None:
        """As an event loop does, it looks at its sockets first, then at its timers."""
        if node.is_in(State.COMPUTING):
            node.state, node.running = State.RUNNING, True
            kept, node.kept = node.kept, []
            for endpoint in tuple(node.endpoints):
                endpoint.woken()
            self._queue.extend(kept)

    # -- time ----------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds."""
        return self.now

    def wall_ms(self, node: Node) -> int:
        """The wall clock of a node, milliseconds since the epoch."""
        return EPOCH_MS + node.wall_offset_ms + int(self.now * 1000)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> SimHandle:
        """As asyncio's."""
        handle = _new(SimHandle)  # a call of the class takes twice as long, and a run makes 100,000 of them
        handle.loop = self
        handle.at = 0.0
        handle.callback = callback
        handle.args = args
        handle.context = context = copy_context() if context is None else context
        handle.is_cancelled = False
        handle.node = context.get(CURRENT, self.lab)
        if not self._over:
            self._queue.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> SimHandle:
        """As asyncio's."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> SimHandle:
        """As asyncio's; timers of one instant fire in the order in which they were set."""
        timer = _new(SimHandle)
        timer.loop = self
        timer.at = when
        timer.callback = callback
        timer.args = args
        timer.context = context = copy_context() if context is None else context
        timer.is_cancelled = False
        timer.node = context.get(CURRENT, self.lab)
        if not self._over:
            self._sequence = sequence = self._sequence + 1
            heappush(self._timers, (when, sequence, timer))
        return timer

    def at(self, node: Node, when: float, context: Context, callback: Callable[..., object], *args: Any) -> None:
        """Run something in a context, but on behalf of another node, which is the one that can be stopped."""
        self.call_at(when, callback, *args, context=context).node = node

    def timer_cancelled(self) -> None:
        """Too many of them: throw them away."""
        self._cancelled_timers += 1
        if self._cancelled_timers > _LEAST_TO_SWEEP and self._cancelled_timers * 2 > len(self._timers):
            self._timers[:] = [each for each in self._timers if not each[2].is_cancelled]  # `_run_once` holds the list
            heapify(self._timers)
            self._cancelled_timers = 0

    def _run_once(self) -> None:  # noqa: C901 - the hot loop, without calls
        """Round after round until the loop is to stop, which `run_forever` looks at after each call."""
        queue, timers = self._queue, self._timers
        append, popleft = queue.append, queue.popleft
        while True:
            if not queue and not self._stopping:  # type: ignore[attr-defined]
                self._next_instant()
            now = self.now
            while timers and timers[0][0] <= now:
                timer = heappop(timers)[2]
                if timer.is_cancelled:
                    self._cancelled_timers -= 1
                else:
                    timer.at = 0.0  # it is no timer any more
                    append(timer)
            todo = len(queue)
            self.handled += todo
            self._spins -= todo
            if self._spins < 0:
                raise Spinning(f"no end of work at {now:.6f}: {list(queue)[:5]}")
            for _ in range(todo):
                handle = popleft()
                if not handle.is_cancelled:
                    if handle.node.running:
                        try:
                            handle.context.run(handle.callback, *handle.args)
                        except BaseException as exc:  # noqa: BLE001 - as asyncio does
                            self._failed(handle, exc)
                        if self._worked_s:
                            self._worked(now)
                    elif handle.node.state is not State.DEAD:
                        handle.node.kept.append(handle)
            handle = timer = None  # type: ignore[assignment]  # what they hold ends now, not with the next
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _next_instant(self) -> None:
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heappop(timers)
            self._cancelled_timers -= 1
        if not timers:
            raise Spinning(f"nothing is left that could happen: {self._waiting()}")
        if timers[0][0] > self.now:
            self.now = timers[0][0]
            self._spins = self._spins_allowed

    def _failed(self, handle: SimHandle, exc: BaseException) -> None:
        if isinstance(exc, SystemExit | KeyboardInterrupt | Spinning):
            raise exc
        self.call_exception_handler({"message": f"Exception in callback {handle}", "exception": exc})

    def _waiting(self) -> list[str]:
        return sorted(task.get_name() for task in asyncio.all_tasks(self))[:10]

    # -- tasks, executors, connections -----------------------------------------------------------------------------

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        """As asyncio's."""
        self._tasks = number = self._tasks + 1
        task = SimTask.__new__(SimTask)
        task.number = number
        task.context = context = copy_context() if context is None else context
        task.node = context.get(CURRENT, self.lab)
        SimTask.__init__(task, coro, loop=self, name=name or f"Task-{number}", context=context)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """A thread that only computes: that is done at once, and takes its time beside the event loop."""
        found: asyncio.Future[Any] = self.create_future()
        self._thread_s = 0.0
        try:
            settle = partial(_settle, found, func(*args), None)
        except Exception as exc:  # noqa: BLE001 - whoever waits gets it
            settle = partial(_settle, found, None, exc)
        finally:
            seconds, self._thread_s = self._thread_s, None
        self.call_later(seconds, settle)
        return found

    async def shutdown_default_executor(self) -> None:
        """There is none."""

    async def getaddrinfo(self, host: Any, port: Any, **_ignored: Any) -> list[tuple[Any, ...]]:
        """Names of nodes are their addresses."""
        return self.network.resolve(host, port)

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **_ignored: Any
    ) -> tuple[Any, Any]:
        """From the current node. Takes a round trip; waits as long as the link is cut. TLS is left out."""
        return await self.network.connect(CURRENT.get(self.lab), protocol_factory, host, port)

    async def create_server(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **_ignored: Any
    ) -> Any:
        """On the current node."""
        return self.network.listen(CURRENT.get(self.lab), protocol_factory, port)

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End what is unfinished, in a world where nothing has an effect any more."""
        if self._over:
            return
        self._over = True
        self._queue.clear()
        self._timers.clear()
        self.network.close()
        self.set_exception_handler(lambda _loop, _context: None)
        asyncio.events._set_running_loop(self)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._bury_all()
                self.nodes.clear()  # by their connections they have all that ran on them
                self.network.forget()
                gc.collect()  # what finalizers want has no effect here, either
        finally:
            gc.unfreeze()
            asyncio.events._set_running_loop(None)
        super().close()

    def _bury_all(self) -> None:
        buried: set[asyncio.Task[Any]] = set()
        while left := sorted(asyncio.all_tasks(self) - buried, key=hash):  # the end of one may begin another
            for task in left:
                if isinstance(task, SimTask):
                    _bury(task)
            buried.update(left)
        for node in (*self._bodies, *self.nodes.values()):
            node.remains.clear()
            node.kept.clear()

    async def shutdown_asyncgens(self) -> None:
        """They end with `close`."""

    def __enter__(self) -> SimLoop:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


_new = object.__new__


def _nothing() -> None:
    pass


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _bury(task: SimTask) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coro: Generator[Any, Any, Any] = task.get_coro()  # type: ignore[assignment]
    with suppress(BaseException):  # what its `finally` wants has no meaning any more
        for _ in range(_ENDINGS):  # each may wait for something anew
            task.context.run(coro.throw, _Over())  # what it has set of its context it sets back
