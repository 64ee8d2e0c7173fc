"""Our Kafka client inside Spark: a task, or a step of the driver, runs it on an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import NetError

T = TypeVar("T")

PREFIX = "kafka."


class Loop:
    """A private event loop that runs only while somebody waits for it, and the clusters reached on it.

    A response that comes meanwhile stays in its socket; so a request sent before a long step of the caller is
    answered when the caller comes back.
    """

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._close: list[Callable[[], Awaitable[None]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.run(self._end())
            self.run(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run until `work` has its result. Raises RuntimeError once the loop is closed.

        Of the errors of a group of tasks the first one is raised, as itself: whoever reports them knows NetError.
        """
        if self._loop.is_closed():
            work.close()  # else Python warns that nobody awaited it
            raise RuntimeError("this event loop is closed")
        try:
            return self._loop.run_until_complete(work)
        except ExceptionGroup as group:
            raise _first(group) from group

    async def _end(self) -> None:
        """Close what was opened, the last first, and end what an interrupted `run` has left behind."""
        for close in reversed(self._close):
            with suppress(NetError):
                await close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Await `close()` at the end, before those that were handed in earlier."""
        self._close.append(close)

    def connect(self, properties: Mapping[str, str]) -> Cluster:
        """Reach a cluster by Kafka client properties; closed with the loop.

        It knows no topic yet: whoever asks for one makes it known. Thousands of tasks that each asked for all topics
        of a large cluster would keep its brokers busy with that.

        Raises:
            ValueError: a bad property.
            ClusterUnavailable: no broker answered in time.
        """
        config = ClusterConfig.from_client_properties({"client.id": "lockgate-spark", **properties})

        async def start() -> Cluster:
            cluster = Cluster(config)
            self.on_close(cluster.close)
            await cluster.start(topics=())
            return cluster

        return self.run(start())


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def ask(properties: Mapping[str, str], question: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
    """One question to one cluster, with a connection made for it. Raises as `Loop.connect` and the question do."""
    with Loop() as loop:
        cluster = loop.connect(properties)
        return loop.run(question(cluster))


def as_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Client properties as options of the data sources: `kafka.` before each name."""
    return {PREFIX + name: value for name, value in properties.items()}
