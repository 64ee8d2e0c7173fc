"""Connections in clients' names: a pool for each, bounded; a login by token; nobody is nobody."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.kafka.access.delegation_tokens import Token, TokenRefused
from gateway.kafka.client_connections import ClientConnections
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import AuthenticationFailed
from tests.support.waiting import wait_until_async


class Connected:
    """An open connection, as whom."""

    host, port, closed, in_flight = "h", 1, False, 0

    def __init__(self, user: str) -> None:
        self.user = user
        self.on_closed: list[Any] = []

    def close(self, reason: str = "") -> None:
        self.closed = True

    def take_back(self, reason: str) -> None:
        self.close(reason)


class Broker:
    """Takes tokens; who is in `unknown` is refused once. Also the book of tokens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int = 10) -> None:
        self.unknown: set[str] = set()
        self.forgotten: list[str] = []
        self.opened: list[Connected] = []
        self.ended = False
        monkeypatch.setattr(Connection, "open", self._open)
        config = ClusterConfig.from_client_properties({"bootstrap.servers": "h:1", "reconnect.backoff.ms": "1"})
        self.clients = ClientConnections(config, self, lambda _: ("h", 1), lambda: None, most=most)

    @property
    def counts(self) -> tuple[int, int, int]:
        return 0, 0, 0

    async def get(self, owner: str) -> Token:
        if owner == "mallory":
            raise TokenRefused("lacks the ACL CreateTokens on User:mallory")
        return Token(f"token-of-{owner}", b"", 1.0)

    def forget(self, owner: str, token: Token) -> None:
        self.forgotten.append(token.token_id)

    async def close(self) -> None:
        self.ended = True

    async def _open(self, _host: str, _port: int, config: ClusterConfig, _tls: object) -> Connected:
        assert config.token is not None
        user, password = await config.token()
        assert password == Token("", b"", 0).password
        if user in self.unknown:
            self.unknown.discard(user)
            raise AuthenticationFailed("invalid credentials")
        self.opened.append(Connected(user))
        return self.opened[-1]

    async def connection(self, owner: str, lane: str = "produce-0") -> Any:
        return await self.clients.connection(owner, 1, lane, asyncio.get_running_loop().time() + 10)


async def test_each_client_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch)
    assert broker.clients.cached("alice", 1, "produce-0") is None
    alice, bob = await broker.connection("alice"), await broker.connection("bob")
    assert (alice.user, bob.user) == ("token-of-alice", "token-of-bob")
    assert broker.clients.cached("alice", 1, "produce-0") is alice
    assert await broker.connection("alice") is alice
    assert await broker.connection("alice", "produce-1") is not alice
    broker.clients.drop(("produce",), "why")
    assert alice.closed
    assert bob.closed
    await broker.clients.close()
    assert broker.ended


async def test_who_may_not_be_acted_for_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch)
    with pytest.raises(AuthenticationFailed, match="CreateTokens on User:mallory"):
        await broker.connection("mallory")
    with pytest.raises(AuthenticationFailed, match="not known who the client is"):
        await broker.connection("")
    assert broker.opened == []


async def test_a_token_that_the_broker_does_not_know_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch)
    broker.unknown = {"token-of-alice"}
    with pytest.raises(AuthenticationFailed, match="invalid credentials"):
        await broker.connection("alice")
    assert broker.forgotten == ["token-of-alice"]

    async def there() -> bool:
        try:
            return bool(await broker.connection("alice"))
        except AuthenticationFailed:
            return False

    await wait_until_async(there, what="the next login")


async def test_the_number_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, most=2)
    alice, bob = await broker.connection("alice"), await broker.connection("bob")
    alice.in_flight = 1  # of which something is in flight stays
    await broker.connection("carol")
    await wait_until_async(lambda: bob.closed, what="who was idle for longest has gone")
    assert not alice.closed
    assert broker.clients.cached("alice", 1, "produce-0") is alice
