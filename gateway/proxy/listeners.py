"""The ports: one for bootstrap and one for each broker of the target, and the way from a session to its broker.

Brokers that join get a port when they are first seen (in the target's view or in a response on its way to a
client, whichever is first); the port of a broker that left is closed and stays reserved for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections.abc import Callable

import structlog

from gateway.net.listening import Acceptor, connect, listen
from gateway.proxy.context import ProxyContext
from gateway.proxy.proxy_session import ProxySession
from gateway.proxy.sides import ClientSide, UpstreamSide

_log = structlog.get_logger("lockgate.proxy")
CONNECT_TIMEOUT_S = 10.0
KNOWN_LOST_S = 1.0  # while others are served without their broker already
LOOK_S = 1.0
BACKLOG = 1024


class Listeners:
    """Implements `context.Endpoints`. `allocate(node id)` gives the broker's port and remembers it."""

    def __init__(
        self,
        context: ProxyContext,
        *,
        host: str,
        advertised_host: str,
        bootstrap_port: int,
        allocate: Callable[[int], int],
        client_tls: ssl.SSLContext | None,
        target_tls: ssl.SSLContext | None,
        idle_timeout_s: float,
        rng: random.Random,
        plain_sockets: bool = True,
    ) -> None:
        self._context = context
        self._host = host
        self._advertised_host = advertised_host
        self._bootstrap_port = bootstrap_port
        self._allocate = allocate
        self._client_tls = client_tls
        self._target_tls = target_tls
        self._idle_timeout_s = idle_timeout_s
        self._rng = rng
        self._accepts_sockets = plain_sockets and client_tls is None
        self._connects_sockets = plain_sockets and target_tls is None
        self._addresses: dict[int, tuple[str, int]] = {}
        self._ports: dict[int, int] = {}
        self._servers: dict[int | None, asyncio.Server | Acceptor] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._closing = False
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the bootstrap port and those of the brokers known now. Raises OSError when a port is taken."""
        self._context.connect = self._connect
        await self._listen(None, self._bootstrap_port)
        for node_id, (host, port, _rack) in self._context.target.view.brokers.items():
            self._addresses[node_id] = (host, port)
            self._ports[node_id] = self._allocate(node_id)
            await self._listen(node_id, self._ports[node_id])
        self._sweep()

    def ports(self) -> dict[int, int]:
        """Node id -> port, of the brokers seen so far."""
        return dict(self._ports)

    def advertised(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        """See `context.Endpoints`."""
        if self._addresses.get(node_id) != (host, port) or node_id not in self._servers:
            self._learn(node_id, host, port)
        return self._advertised_host, self._ports[node_id]

    def brokers_changed(self) -> None:
        """The target's view changed: open ports for new brokers, close those of brokers that left."""
        brokers = self._context.target.view.brokers
        for node_id, (host, port, _rack) in brokers.items():
            self.advertised(node_id, host, port)
        for node_id in [n for n in self._servers if n is not None and brokers and n not in brokers]:
            self._servers.pop(node_id).close()
            _log.info("broker left the target", node_id=node_id, port=self._ports[node_id])

    def _learn(self, node_id: int, host: str, port: int) -> None:
        self._addresses[node_id] = (host, port)
        if node_id not in self._ports:
            self._ports[node_id] = self._allocate(node_id)
        if node_id not in self._servers and not self._closing:
            work = self._context.loop.create_task(self._open(node_id))
            self._context.spawn(work)

    async def _open(self, node_id: int) -> None:
        if node_id in self._servers:
            return
        try:
            await self._listen(node_id, self._ports[node_id])
        except OSError as error:
            _log.error("cannot listen for a broker", node_id=node_id, port=self._ports[node_id], error=str(error))

    async def _listen(self, node_id: int | None, port: int) -> None:
        loop = self._context.loop
        context = self._context
        if self._accepts_sockets:
            self._servers[node_id] = await listen(
                loop, self._host, port, BACKLOG, lambda sock: ClientSide(context, node_id).accepted(sock)
            )
        else:
            self._servers[node_id] = await loop.create_server(
                lambda: ClientSide(context, node_id), self._host, port, ssl=self._client_tls, backlog=BACKLOG
            )
        _log.info("listening", node_id="bootstrap" if node_id is None else node_id, host=self._host, port=port)

    # -- from a session to its broker ----------------------------------------------------------------------

    def _connect(self, session: ProxySession) -> None:
        self._context.spawn(self._context.loop.create_task(self._connect_session(session)))

    async def _connect_session(self, session: ProxySession) -> None:
        try:
            host, port = self._address(session.node_id)
            loop, tls = self._context.loop, self._target_tls
            async with asyncio.timeout(KNOWN_LOST_S if self._context.stand_in.sessions else CONNECT_TIMEOUT_S):
                if self._connects_sockets:
                    UpstreamSide(session).connected(await connect(loop, host, port))
                else:
                    await loop.create_connection(
                        lambda: UpstreamSide(session), host, port, ssl=tls, server_hostname=host if tls else None
                    )
        except (OSError, TimeoutError, LookupError) as error:
            if not self._context.stand_in.takes(session):
                session.close(f"target broker unreachable: {session.node_id}: {error}")
            elif self._looking is None:
                self._looking = self._context.loop.create_task(self._look_for_brokers(), name="look for brokers")
                self._context.spawn(self._looking)

    async def _look_for_brokers(self) -> None:
        """Give sessions that are served without their brokers back to them."""
        stand_in = self._context.stand_in
        while stand_in.sessions and not self._closing:
            await asyncio.sleep(LOOK_S)
            for node_id in dict.fromkeys(session.node_id for session in stand_in.sessions):
                if await self._is_there(node_id):
                    _log.info("the target is reached again", node_id="bootstrap" if node_id is None else node_id)
                    for session in [each for each in stand_in.sessions if each.node_id == node_id]:
                        stand_in.sessions.pop(session, None)
                        session.drain()
        self._looking = None

    async def _is_there(self, node_id: int | None) -> bool:
        try:
            async with asyncio.timeout(LOOK_S):
                loop, address = self._context.loop, self._address(node_id)
                if self._connects_sockets:
                    (await connect(loop, *address)).close()
                else:
                    (await loop.create_connection(asyncio.Protocol, *address))[0].close()
        except (OSError, TimeoutError, LookupError):
            return False
        return True

    def _address(self, node_id: int | None) -> tuple[str, int]:
        if node_id is not None:
            return self._addresses[node_id]
        if not self._addresses:
            raise LookupError("no broker of the target is known")
        live = [n for n in self._context.target.view.brokers if n in self._addresses] or list(self._addresses)
        return self._addresses[self._rng.choice(live)]

    # -- idle and shutdown ---------------------------------------------------------------------------------

    def _sweep(self) -> None:
        oldest = self._context.clock() - self._idle_timeout_s
        for session in [s for s in self._context.sessions if s.last_active < oldest and s.idle]:
            session.close("idle")
        self._sweeper = self._context.loop.call_later(max(self._idle_timeout_s / 10, 0.05), self._sweep)

    async def close(self, grace_s: float) -> None:
        """Accept no more, answer what is in flight (at most `grace_s` seconds), close everything."""
        self._closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._servers.values():
            server.close()
        for session in list(self._context.sessions):
            session.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):  # wait_for of 3.11 can lose a cancellation
                await self._context.no_sessions.wait()
        for session in list(self._context.sessions):
            session.close("shutdown: grace is over")
