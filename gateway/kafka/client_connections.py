"""Connections to a cluster on which the gateway speaks as one of its clients: logged in with the client's token.

Each client's principal has a pool of its own, made when it is first needed. When there are too many, who was not asked
for longest goes first, unless something of it is in flight. The broker closes connections on which nothing is said.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, Protocol

from gateway.kafka.access.delegation_tokens import Token
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import AuthenticationFailed
from gateway.kafka.connection.pool import Address, Lane, Pool
from gateway.transport.background import Background

MOST: Final = 1_000  # principals


class ConnectionTokens(Protocol):
    """The delegation tokens that a client logs in with; `token_book.py` keeps them."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """Owners that have a token now; tokens made and refused so far."""

    async def get(self, owner: str) -> Token:
        """A token to log in with now. Raises TokenRefused or ClusterUnavailable."""

    def forget(self, owner: str, token: Token) -> None:
        """The cluster does not take it any more."""

    async def close(self) -> None:
        """End all."""


class _Client:
    """One principal: its token, and its connections."""

    def __init__(self, owner: str, around: ClientConnections) -> None:
        self._owner = owner
        self._around = around
        self._token: Token | None = None
        self._config = replace(around.config, token=self._login)
        self.pool = Pool(self._config, around.address, self._open, around.on_trouble)

    def reconfigure(self) -> None:
        """Reach the cluster as the configuration says now, with the token as before."""
        self._config = replace(self._around.config, token=self._login)
        self.pool.reconfigure(self._config, "the configuration has changed")

    @property
    def is_idle(self) -> bool:
        """Nothing of it is in flight."""
        return not any(connection.in_flight for _, _, connection in self.pool.open_connections())

    async def _login(self) -> tuple[str, str]:
        self._token = None
        self._token = token = await self._around.tokens.get(self._owner)
        return token.token_id, token.password

    async def _open(self, host: str, port: int) -> Connection:
        try:
            return await Connection.open(host, port, self._config, self._around.tls())
        except AuthenticationFailed:
            if self._token is not None:  # the broker does not know it, or not any more: the next try has another one
                self._around.tokens.forget(self._owner, self._token)
            raise


class ClientConnections:
    """Args.

    config: how the gateway itself reaches the cluster; the client's token is all that differs.
    address: node id -> where, as the cluster's view says.
    on_trouble: called when a connection could not be opened or was lost.
    """

    def __init__(
        self,
        config: ClusterConfig,
        tokens: ConnectionTokens,
        address: Address,
        on_trouble: Callable[[], None],
        *,
        most: int = MOST,
    ) -> None:
        self.config = config
        self.tokens = tokens
        self.address = address
        self.on_trouble = on_trouble
        self._most = most
        self._tls: ssl.SSLContext | None = None
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._closing = Background()

    def cached(self, owner: str, node_id: int, lane: Lane) -> Connection | None:
        """The open connection of a client to a node, None where there is none."""
        client = self._clients.get(owner)
        return None if client is None else client.pool.get(node_id, lane)

    async def connection(self, owner: str, node_id: int, lane: Lane, deadline: float) -> Connection:
        """An open connection of a principal's, until `deadline` (loop time).

        Raises:
            AuthenticationFailed: nobody can act as this principal; says why.
            ClusterUnavailable: none in time.
        """
        if not owner:
            raise AuthenticationFailed("it is not known who the client is, so nothing is done in its name")
        client = self._clients.get(owner)
        if client is None:
            self._make_room()
            client = self._clients[owner] = _Client(owner, self)
        self._clients.move_to_end(owner)
        return await client.pool.connection(node_id, lane, deadline)

    def drop(self, lanes: Collection[str], reason: str) -> None:
        """Close the connections of these lanes, of every client."""
        for client in self._clients.values():
            client.pool.drop(lanes, reason)

    def reconfigure(self, config: ClusterConfig) -> None:
        """Connect by other properties from now on."""
        self.config, self._tls = config, None
        for client in self._clients.values():
            client.reconfigure()

    def tls(self) -> ssl.SSLContext | None:
        """Without the gateway's own certificate. Raises ValueError for a file of no use."""
        if self._tls is None:
            self._tls = self.config.ssl_context_for_others()
        return self._tls

    async def close(self) -> None:
        """Close all connections, and end the tokens."""
        clients = list(self._clients.values())
        self._clients.clear()
        await asyncio.gather(*(client.pool.close() for client in clients))
        await self._closing.close()
        await self.tokens.close()

    def _make_room(self) -> None:
        if len(self._clients) < self._most:
            return
        for owner, client in self._clients.items():
            if client.is_idle:
                del self._clients[owner]
                self._closing.spawn(client.pool.close(), "close a client's connections")
                return
