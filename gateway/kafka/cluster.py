"""A client of one Kafka cluster: a view of its brokers and topics, and pooled connections to them."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import (
    AuthenticationFailed,
    BrokerError,
    ClusterUnavailable,
    ConnectionClosed,
    NetError,
    PartitionErrors,
    RequestTimedOut,
    UnsupportedVersion,
)
from gateway.kafka.connection.pool import Lane, Pool
from gateway.kafka.coordinators import TRANSACTION, Coordinators
from gateway.kafka.metadata import MetadataKeeper
from gateway.kafka.view import BrokerView, ClusterView, PartitionView, TopicView
from gateway.transport.backoff import Backoff
from gateway.transport.host import MACHINE, Host

CONTROL_LANE = "control"
_LEAST_S = 0.1  # the least time a broker gets to answer, while there is that much
_NO_TIME_S = 0.01  # in less than that no broker can answer


class Clients(Protocol):
    """Connections on which the gateway speaks as a client of its own; see `client_connections.py`."""

    def cached(self, owner: str, node_id: int, lane: Lane) -> Connection | None:
        """A principal's open connection; None if there is none now."""

    async def connection(self, owner: str, node_id: int, lane: Lane, deadline: float) -> Connection:
        """An open connection. Raises ClusterUnavailable; AuthenticationFailed if it cannot act as this principal."""

    def drop(self, lanes: Collection[str], reason: str) -> None:
        """Close the connections of these lanes."""

    def reconfigure(self, config: ClusterConfig) -> None:
        """Use other properties for new connections."""

    async def close(self) -> None:
        """Close all connections."""


class Cluster:
    """A client of one cluster. Everything runs on one event loop; every await has a deadline.

    Deadlines are `timeout_s` where given, else `config.api_timeout_s`; when one passes, ClusterUnavailable says
    what went wrong last.

    Args:
        config: how to reach the cluster.
        host: the machine this client runs on.
        rng: random numbers in [0, 1) for jitter and the choice of brokers; the host's by default.

    Attributes:
        clients: connections in the names of clients, for work done for them; None: that work uses this client's own.
    """

    def __init__(self, config: ClusterConfig, *, host: Host = MACHINE, rng: Callable[[], float] | None = None) -> None:
        self.config = config
        self.host = host
        self.clients: Clients | None = None
        self.rng = rng = rng or host.rng.random
        self._ssl_context: ssl.SSLContext | None = None
        self._metadata = MetadataKeeper(config, self._open, rng)
        self._pool = Pool(config, self.address, self._open, self.invalidate, rng)
        self._coordinators = Coordinators(
            self.request, lambda: self.view.brokers, lambda: Backoff(*config.retry_backoff_s, self.rng)
        )
        self._metadata.on_view.append(lambda _: self._pool.forget_missing())
        self.client_errors: Counter[str] = Counter()  # connections that could not be opened, by cause

    async def start(self, timeout_s: float | None = None, *, topics: Collection[str] | None = None) -> None:
        """Fetch the first view.

        Args:
            topics: follow only these topics (none if empty); None for every topic.

        Raises:
            ClusterUnavailable: not within the deadline. The client keeps trying in the background until `close`.
        """
        self._metadata.start(everything=topics is None)
        if not self._metadata.view.brokers:
            await self._metadata.refresh(topics, self._deadline_s(timeout_s))

    async def close(self) -> None:
        """Close every connection and end every task. Waiting callers get ClusterUnavailable."""
        if self.clients is not None:
            await self.clients.close()
        await self._metadata.close()
        await self._pool.close()

    @property
    def view(self) -> ClusterView:
        """The latest snapshot; empty before `start`."""
        return self._metadata.view

    @property
    def on_view(self) -> list[Callable[[ClusterView], None]]:
        """Callbacks, called with each view that differs from the one before."""
        return self._metadata.on_view

    @property
    def available(self) -> bool:
        """True when the last attempt to refresh the view succeeded."""
        return bool(self.view.brokers) and not self._metadata.last_error

    @property
    def refused(self) -> bool:
        """True while the cluster answers and rejects the credentials."""
        return self._metadata.refused

    @property
    def last_error(self) -> str:
        """Why the cluster, or one of its brokers, could not be reached last; empty when all is well."""
        return self._metadata.last_error or self._pool.last_error

    async def refresh(self, topics: Collection[str] | None = None, timeout_s: float | None = None) -> ClusterView:
        """Wait for a view that is newer than this call; simultaneous calls share a request.

        Args:
            topics: these topics, which are then kept fresh; None for every topic of the cluster.

        Raises:
            ClusterUnavailable: not within the deadline.
        """
        await self._metadata.refresh(topics, self._deadline_s(timeout_s))
        return self.view

    def invalidate(self, topic: str | None = None) -> None:
        """Refresh the view soon, from another broker, since something in it was wrong (a leader, an address). Does not
        wait.

        A `refresh` that is awaited after this call is that same refresh.
        """
        self._metadata.hint(() if topic is None else (topic,))

    def leader(self, topic: str, partition: int) -> int | None:
        """The node that leads a partition, None when unknown or leaderless."""
        known = self._metadata.view.topics.get(topic)
        found = None if known is None else known.partitions.get(partition)
        return None if found is None or found.leader < 0 else found.leader

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The known leader epoch of a partition; -1 if unknown. A request with it is refused by a broker that was
        replaced without noticing, and a newer leader answers that the metadata are old (KIP-320)."""
        known = self._metadata.view.topics.get(topic)
        found = None if known is None else known.partitions.get(partition)
        return -1 if found is None else found.leader_epoch

    def leader_of_all(self, topic: str, partitions: Iterable[int]) -> int | None:
        """The node that leads all these partitions; None: not one node, or one of them is unknown or leaderless."""
        known = self._metadata.view.topics.get(topic)
        if known is None:
            return None
        leader = None
        for partition in partitions:
            found = known.partitions.get(partition)
            if found is None or found.leader < 0 or (leader is not None and leader != found.leader):
                return None
            leader = found.leader
        return leader

    def cached_connection(self, node_id: int, lane: Lane = 0) -> Connection | None:
        """The open connection to a node, None if there is none at the moment. For the hot path."""
        return self._pool.get(node_id, lane)

    def cached_for(self, client: str, node_id: int, lane: Lane) -> Connection | None:
        """Same as `cached_connection`, for work done for a client, given by its principal."""
        return self._pool.get(node_id, lane) if self.clients is None else self.clients.cached(client, node_id, lane)

    async def connection_for(self, client: str, node_id: int, lane: Lane, timeout_s: float | None = None) -> Connection:
        """Same as `connection`, for work done for a client, given by its principal.

        Raises:
            AuthenticationFailed: the gateway cannot act as this client; says why.
            ClusterUnavailable: as `connection`.
        """
        if self.clients is None:
            return await self.connection(node_id, lane, timeout_s)
        deadline = asyncio.get_running_loop().time() + self._deadline_s(timeout_s)
        if self.address(node_id) is None:
            await self._metadata.refresh((), self._deadline_s(timeout_s))
        return await self.clients.connection(client, node_id, lane, deadline)

    async def connection(self, node_id: int, lane: Lane = 0, timeout_s: float | None = None) -> Connection:
        """An open connection to a node, one per lane; opened, with backoff, if there is none.

        Raises:
            ClusterUnavailable: none within the deadline, or the node is not in the cluster.
        """
        deadline = asyncio.get_running_loop().time() + self._deadline_s(timeout_s)
        if self.address(node_id) is None:
            await self._metadata.refresh((), self._deadline_s(timeout_s))
        return await self._pool.connection(node_id, lane, deadline)

    def reconfigure(self, config: ClusterConfig) -> None:
        """Reach the same cluster in another way: with other credentials, by other bootstrap servers.

        Nothing in flight is lost: see `Pool.reconfigure`. Does nothing if the config is the same.
        """
        is_news = config != self.config
        self.config = config
        if not is_news:
            return
        self._ssl_context = None
        self._metadata.reconfigure(config)
        self._pool.reconfigure(config, "the configuration has changed")
        if self.clients is not None:
            self.clients.reconfigure(config)

    def drop(self, lanes: Collection[str], reason: str) -> None:
        """Close the connections of these lanes immediately, without sending what waits; they reopen when needed.

        A lane is named by the part before a '-'.
        """
        self._pool.drop(lanes, reason)
        if self.clients is not None:
            self.clients.drop(lanes, reason)

    async def request(
        self,
        message: Any,
        node_id: int | None = None,
        cap: int | None = None,
        timeout_s: float | None = None,
        lane: Lane = CONTROL_LANE,
        avoid: Collection[int] = (),
    ) -> Any:
        """Send a message and return the decoded response.

        Args:
            node_id: the broker to ask. None for any: then another one is asked when a connection fails, so the
                request must be safe to execute twice.
            cap: highest version to use.
            lane: the connection to use, if `node_id` is given.
            avoid: nodes to ask only if no other one is left.

        Raises:
            ClusterUnavailable: no answer within the deadline; outcome unknown if it was sent.
            UnsupportedVersion: no common version.
        """
        deadline = asyncio.get_running_loop().time() + self._deadline_s(timeout_s)
        if node_id is not None:
            return await self._request_once(message, node_id, cap, deadline, lane)
        failed = set(avoid)
        while True:
            node = await self._any_node(failed, deadline)
            try:
                return await self._request_once(message, node, cap, self._fair_share(deadline))
            except AuthenticationFailed:
                raise
            except ClusterUnavailable:
                failed.add(node)
                if asyncio.get_running_loop().time() + _NO_TIME_S >= deadline:
                    raise

    async def coordinator(self, group: str, timeout_s: float | None = None) -> int:
        """The node that coordinates a group; kept until `invalidate_coordinator`.

        Raises:
            ClusterUnavailable: not found within the deadline.
            BrokerError: the broker refuses to say, for example GROUP_AUTHORIZATION_FAILED (30).
        """
        return await self._coordinators.find(group, self._deadline_s(timeout_s))

    def invalidate_coordinator(self, group: str, node_id: int | None = None) -> None:
        """The group has moved: ask again next time. `node_id`: away from there; ignored if another one is known."""
        self._coordinators.forget(group, node_id=node_id)

    async def transaction_coordinator(self, transactional_id: str, timeout_s: float | None = None) -> int:
        """The node that coordinates a transactional id; kept until `invalidate_transaction_coordinator`.

        Raises:
            ClusterUnavailable: not found within the deadline.
            BrokerError: refused, for example TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53).
        """
        return await self._coordinators.find(transactional_id, self._deadline_s(timeout_s), TRANSACTION)

    def invalidate_transaction_coordinator(self, transactional_id: str, node_id: int | None = None) -> None:
        """The transactional id has moved: ask again next time."""
        self._coordinators.forget(transactional_id, TRANSACTION, node_id)

    async def _request_once(
        self, message: Any, node_id: int, cap: int | None, deadline: float, lane: Lane = CONTROL_LANE
    ) -> Any:
        loop = asyncio.get_running_loop()
        connection = await self.connection(node_id, lane, deadline - loop.time())
        return await connection.request(message, cap=cap, timeout_s=max(0.001, deadline - loop.time()))

    async def _any_node(self, failed: set[int], deadline: float) -> int:
        """A connected node, else a random one; a failed node only when all have failed."""
        loop = asyncio.get_running_loop()
        if not self.view.brokers:
            await self._metadata.refresh((), max(0.001, deadline - loop.time()))
        if failed >= self.view.brokers.keys():
            await asyncio.sleep(min(self.config.retry_backoff_s[0], max(0.0, deadline - loop.time())))
            failed.clear()
        nodes = [node for node in self.view.brokers if node not in failed]
        connected = [node for node in nodes if self._pool.get(node, CONTROL_LANE) is not None]
        choice = connected or nodes
        return choice[int(self.rng() * len(choice))]

    def _fair_share(self, deadline: float) -> float:
        """A deadline for one broker that leaves time to ask another."""
        now = asyncio.get_running_loop().time()
        left_s = deadline - now
        share_s = left_s / min(3, max(1, len(self.view.brokers)))
        return deadline if share_s < _LEAST_S else now + share_s

    def address(self, node_id: int) -> tuple[str, int] | None:
        """A node's address by the view; None if it is not in the cluster."""
        broker = self._metadata.view.brokers.get(node_id)
        return None if broker is None else (broker.host, broker.port)

    async def _open(self, host: str, port: int) -> Connection:
        if self._ssl_context is None:
            try:
                self._ssl_context = self.config.ssl_context()
            except ValueError as exc:
                raise ClusterUnavailable(str(exc)) from exc
        try:
            return await Connection.open(host, port, self.config, self._ssl_context)
        except AuthenticationFailed:
            self.client_errors["authentication"] += 1
            raise
        except NetError:
            self.client_errors["connection"] += 1
            raise

    def _deadline_s(self, timeout_s: float | None) -> float:
        return self.config.api_timeout_s if timeout_s is None else max(0.001, timeout_s)


__all__ = [
    "CONTROL_LANE",
    "AuthenticationFailed",
    "BrokerError",
    "BrokerView",
    "Cluster",
    "ClusterUnavailable",
    "ClusterView",
    "ConnectionClosed",
    "NetError",
    "PartitionErrors",
    "PartitionView",
    "RequestTimedOut",
    "TopicView",
    "UnsupportedVersion",
]
