"""Fixtures for the Kafka client: clients and connections that are closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.connection import Connection

T = TypeVar("T")
OpenCluster = Callable[..., Awaitable[Cluster]]
OpenConnection = Callable[..., Awaitable[Connection]]


def quick(bootstrap: str, **properties: str) -> ClusterConfig:
    """A config with short waits. Property names with underscores for dots."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    defaults = {
        "bootstrap.servers": bootstrap,
        "retry.backoff.ms": "5",
        "retry.backoff.max.ms": "20",
        "reconnect.backoff.ms": "5",
        "reconnect.backoff.max.ms": "20",
        "default.api.timeout.ms": "3000",
    }
    return ClusterConfig.from_client_properties(defaults | given)


def asked(config: ClusterConfig, question: Callable[[Cluster], Awaitable[T]]) -> T:
    """The answer of a cluster to one question, asked by a client of its own."""

    async def ask() -> T:
        cluster = Cluster(config)
        try:
            await cluster.start(30.0, topics=[])
            return await question(cluster)
        finally:
            await cluster.close()

    return asyncio.run(ask())


@pytest.fixture
async def connect() -> AsyncIterator[OpenConnection]:
    """Opens connections: connect(port, **properties)."""
    opened: list[Connection] = []

    async def open_one(port: int, **properties: str) -> Connection:
        opened.append(await Connection.open("127.0.0.1", port, quick(f"127.0.0.1:{port}", **properties)))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
async def client() -> AsyncIterator[OpenCluster]:
    """Makes started clients: client(bootstrap, start=True, **properties)."""
    made: list[Cluster] = []

    async def make(bootstrap: str, *, start: bool = True, **properties: str) -> Cluster:
        made.append(Cluster(quick(bootstrap, **properties)))
        if start:
            await made[-1].start()
        return made[-1]

    yield make
    for cluster in made:
        await cluster.close()
