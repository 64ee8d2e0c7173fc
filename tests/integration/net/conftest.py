"""Clients of real clusters, on uvloop as in production."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest
import uvloop

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig

OpenCluster = Callable[..., Awaitable[Cluster]]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def client() -> AsyncIterator[OpenCluster]:
    """Makes clients: client(bootstrap, start=True, **properties with underscores for dots)."""
    made: list[Cluster] = []

    async def make(bootstrap: str, *, start: bool = True, **properties: str) -> Cluster:
        given = {name.replace("_", "."): value for name, value in properties.items()}
        made.append(Cluster(ClusterConfig.from_client_properties({"bootstrap.servers": bootstrap, **given})))
        if start:
            await made[-1].start()
        return made[-1]

    yield make
    for cluster in made:
        await cluster.close()
