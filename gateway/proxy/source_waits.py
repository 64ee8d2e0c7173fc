"""A write that must wait for its source: until a leader is known, or until there is a connection to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from gateway.net.errors import ClusterUnavailable, NetError

if TYPE_CHECKING:
    from gateway.net.cluster import Cluster
    from gateway.proxy.session import Session

LEADER_WAIT_S = 5.0


async def find_connection(cluster: Cluster, node_id: int, lane: str) -> None:
    """Connect to a broker of the source: then the connection is cached. Raises NetError."""
    await cluster.connection(node_id, lane)


async def find_leader(cluster: Cluster, topic: str, partitions: Sequence[int]) -> None:
    """Ask the source who leads. Raises NetError, also when none of the partitions has a leader."""
    await cluster.refresh([topic])
    view_of_topic = cluster.view.topics.get(topic)
    if view_of_topic is None or all(cluster.leader(topic, partition) is None for partition in partitions):
        raise ClusterUnavailable(f"no leader on the source for topic {topic}")


def await_source(
    session: Session, work: Awaitable[None], ready: Callable[[], None], failed: Callable[[str], None]
) -> None:
    """Stall the session while `work` prepares the source; then `ready`, or `failed` with what went wrong."""
    session.stall()

    async def run() -> None:
        try:
            async with asyncio.timeout(LEADER_WAIT_S):
                await work
        except (NetError, TimeoutError, OSError) as error:
            message = f"source: {str(error) or f'not reached within {LEADER_WAIT_S:g} s'}"  # a time-out says nothing
            session.again(lambda: failed(message))
        else:
            session.again(ready)

    session.context.spawn(session.context.loop.create_task(run()))
