"""What all clients have: lives on a node of their own, a name per life, errors.

A life is one process of the history: `start` begins one, `stop` ends it in order, `kill` without a word. A life that
meets a fatal error of its library ends there; a client with `revives` begins the next one by itself, as an application
that is restarted does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol

from gateway.kafka.cluster import Cluster, NetError
from gateway.kafka.connection.config import ClusterConfig
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.kernel.node import Node, State
from tests.simulation.recorder import TARGET, Recorder

EPOCH_MS: Final = 1_700_000_000_000
"""The wall clock's milliseconds where the loop's clock is 0, as in `kafka.cluster`."""
CONNECT_TRY_S: Final = 1.0
"""Who has no connection to a broker by then looks whether it is still the one to ask; the attempt itself goes on."""
_REVIVE_S: Final = 1.0
Bootstrap = str | Collection[tuple[str, int]]


class Fatal(Exception):
    """The library's producer or consumer cannot be used any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds, under the names of the Java client's settings (the last two: for a connection, and with all retries)."""

    request_timeout: float = 30.0
    delivery_timeout: float = 120.0
    retry_backoff: float = 0.1
    retry_backoff_max: float = 1.0
    session_timeout: float = 10.0
    heartbeat_interval: float = 3.0
    max_poll_interval: float = 60.0
    transaction_timeout: float = 60.0
    fetch_max_wait: float = 0.5
    connect_timeout: float = 10.0
    api_timeout: float = 30.0


class Listener(Protocol):
    """Told of everything that a client's library logs."""

    def __call__(self, client: str, line: str, /) -> None: ...


class Client:
    """See the module.

    Attributes:
        name: of its node, and of its processes: the second life of p1 is p1#2.
        side: the cluster whose offsets it sees: a client of a gateway sees the target's.
        errors: what its library showed to the application, with the time.
        fatal: the error that ended the last life, "" if none did.
        progress: records that were acknowledged, or read.
        lives: how many there were.
    """

    revives = False

    def __init__(
        self,
        loop: SimLoop,
        name: str,
        bootstrap: Bootstrap,
        recorder: Recorder,
        *,
        side: str = TARGET,
        timing: Timing | None = None,
    ) -> None:
        self.loop, self.name, self.recorder, self.side = loop, name, recorder, side
        self.bootstrap = bootstrap
        self.timing = timing or Timing()
        self.rng: Random = loop.random(f"client {name}")
        self.errors: list[str] = []
        self.fatal = ""
        self.progress = 0
        self.lives = 0
        self.process = name
        self.on_error: list[Listener] = []
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    @property
    def running(self) -> bool:
        """A life is under way."""
        return self._task is not None and not self._task.done()

    @property
    def stopping(self) -> bool:
        """The life under way was asked to end."""
        return self._stop.is_set()

    def start(self, bootstrap: Bootstrap | None = None, side: str | None = None) -> None:
        """Begin a life, at another place if one is given."""
        assert not self.running, f"{self.name} runs already"
        self.bootstrap = self.bootstrap if bootstrap is None else bootstrap
        self.side = self.side if side is None else side
        node = self.loop.node(self.name)
        if node.is_in(State.DEAD):
            node = self.loop.restart(node)
        self._stop = asyncio.Event()
        self._task = self.loop.spawn(node, self._lives(), f"{self.name} lives")

    def ask_to_stop(self) -> None:
        """Without waiting for it."""
        self._stop.set()

    async def stop(self) -> None:
        """End the life in order: what it has sent is answered, or given up by its timeouts."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def restart(self, bootstrap: Bootstrap | None = None, side: str | None = None) -> None:
        """Stop, and begin the next life."""
        await self.stop()
        self.start(bootstrap, side)

    def kill(self) -> None:
        """As SIGKILL does."""
        self.loop.kill(self.node)
        self._task = None

    @property
    def node(self) -> Node:
        """Where it runs."""
        return self.loop.node(self.name)

    def failed(self, line: str) -> None:
        """The application was shown an error."""
        self.errors.append(f"{self.loop.time():.3f} {self.process}: {line}")
        for listener in self.on_error:
            listener(self.process, line)

    async def live(self) -> None:
        """One life, in `self.cluster`. Ends when `stopping`, or by Fatal."""
        raise NotImplementedError

    # -- for the lives -----------------------------------------------------------------------------------------

    async def pause(self, seconds: float) -> bool:
        """Sleep, less when it is to stop. False then."""
        if self.stopping:
            return False
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return True
        return False

    async def stop_asked(self) -> None:
        """Wait for it."""
        await self._stop.wait()

    def spawn(self, coro: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        """A task beside the life, on its node."""
        return self.loop.spawn(self.node, coro, f"{self.process} {what}")

    def open_cluster(self, bootstrap: Bootstrap | None = None) -> Cluster:
        """A client of the bootstrap servers, or of others."""
        timing = self.timing
        config = ClusterConfig(
            bootstrap=addresses(self.bootstrap if bootstrap is None else bootstrap),
            client_id=self.process,
            request_timeout_s=timing.request_timeout,
            connect_timeout_s=timing.connect_timeout,
            api_timeout_s=timing.api_timeout,
        )
        return Cluster(config, rng=self.rng.random)

    async def metadata(self, cluster: Cluster, topics: Collection[str]) -> bool:
        """Get a first view with these topics, as often as it takes; False when it is to stop first."""
        started = False
        while not self.stopping:
            with suppress(NetError):  # nobody answers: the library goes on trying, the application hears nothing
                if started:
                    await cluster.refresh(topics)
                else:
                    started = True
                    await cluster.start(topics=topics)
            if all(name in cluster.view.topics for name in topics):
                return True
            await self.pause(self.timing.retry_backoff_max)
        return False

    async def _lives(self) -> None:
        while True:
            self.lives += 1
            self.process = self.name if self.lives == 1 else f"{self.name}#{self.lives}"
            self.fatal = ""
            try:
                await self.live()
            except Fatal as error:
                self.fatal = str(error)
                self.failed(f"fatal: {error}")
            if not self.fatal or not self.revives or not await self.pause(_REVIVE_S):
                return


def addresses(bootstrap: Bootstrap) -> tuple[tuple[str, int], ...]:
    """`host:port,host:port`, or pairs."""
    if not isinstance(bootstrap, str):
        return tuple(bootstrap)
    pairs = (each.strip().rpartition(":") for each in bootstrap.split(","))
    return tuple((host, int(port)) for host, _, port in pairs)


async def ended(*tasks: asyncio.Task[None]) -> None:
    """End tasks; what they failed with is nobody's any more."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()
