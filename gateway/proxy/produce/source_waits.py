"""Lets a write wait for its source: until a leader is known, or until there is a connection to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING

from gateway.kafka.connection.errors import AuthenticationFailed, ClusterUnavailable, NetError
from gateway.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from gateway.kafka.cluster import Cluster
    from gateway.proxy.session.session import Session

LEADER_WAIT_S = 5.0
LOOK_S = 0.5


async def find_connection(
    cluster: Cluster, client: str, node_id: int, lane: str, leads: Collection[TopicPartition]
) -> None:
    """Connect, for a client, to a broker that leads partitions of the source, or find out that it no longer leads all.

    A dead broker refuses connections as long as the view says that it leads, and nothing else here refreshes the view.
    Afterwards either a connection is cached, or by the view the write goes to another broker.

    Raises:
        NetError: neither.
    """
    topics = {topic for topic, _ in leads}
    connecting = asyncio.create_task(
        cluster.connection_for(client, node_id, lane), name=f"connect to source broker {node_id}"
    )
    try:
        while True:
            done, _ = await asyncio.wait({connecting}, timeout=LOOK_S)
            if done and (failed := connecting.exception()) is None:
                return
            if done and isinstance(failed, AuthenticationFailed):
                raise failed
            await cluster.refresh(topics)
            if any(cluster.leader(*partition) not in (node_id, None) for partition in leads):
                return
            if done:
                connecting.result()
    finally:
        connecting.cancel()


async def find_leader(cluster: Cluster, topic: str, partitions: Sequence[int]) -> None:
    """Ask the source for the leaders. Raises NetError, also when none of the partitions has a leader."""
    await cluster.refresh([topic])
    view_of_topic = cluster.view.topics.get(topic)
    if view_of_topic is None or all(cluster.leader(topic, partition) is None for partition in partitions):
        raise ClusterUnavailable(f"no leader on the source for topic {topic}")


def await_source(
    session: Session, work: Awaitable[None], ready: Callable[[], None], failed: Callable[[str, bool], None]
) -> None:
    """Stall the session while `work` prepares the source; then call `ready`, or `failed` with the error.

    The second argument of `failed`: whether the source refused a login.
    """
    session.stall()

    async def run() -> None:
        try:
            async with asyncio.timeout(LEADER_WAIT_S):
                await work
        except (NetError, TimeoutError, OSError) as error:
            message = f"source: {str(error) or f'not reached within {LEADER_WAIT_S:g} s'}"  # a time-out says nothing
            is_login = isinstance(error, AuthenticationFailed)
            session.again(lambda: failed(message, is_login))
        else:
            session.again(ready)

    session.context.spawn(session.context.loop.create_task(run()))
