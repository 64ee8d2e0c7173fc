"""Our Kafka client inside Spark: a task, or a step of the driver, runs it on an event loop of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from gateway.net.cluster import Cluster
from gateway.net.config import ClusterConfig

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
            for close in reversed(self._close):
                self.run(_awaited(close()))
            self.run(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run until `work` has its result."""
        return self._loop.run_until_complete(work)

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Await `close()` at the end, before those that were handed in earlier."""
        self._close.append(close)

    def connect(self, properties: Mapping[str, str]) -> Cluster:
        """Reach a cluster by Kafka client properties; closed with the loop.

        Raises:
            ValueError: a bad property.
            ClusterUnavailable: no broker answered in time.
        """
        config = ClusterConfig.from_client_properties({"client.id": "lockgate-spark", **properties})

        async def start() -> Cluster:
            cluster = Cluster(config)
            self.on_close(cluster.close)
            await cluster.start()
            return cluster

        return self.run(start())


async def _awaited(work: Awaitable[None]) -> None:
    await work


def ask(properties: Mapping[str, str], question: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
    """One question to one cluster, with a connection made for it. Raises as `Loop.connect` and the question do."""
    with Loop() as loop:
        cluster = loop.connect(properties)
        return loop.run(question(cluster))


def as_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Client properties as options of the data sources: `kafka.` before each name."""
    return {PREFIX + name: value for name, value in properties.items()}
