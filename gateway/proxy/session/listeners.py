"""The ports: of each listener one for bootstrap and one for each broker; and the way from a session to its broker.

Brokers that join get a port when they are first seen (in the target's view or in a response on its way to a
client, whichever is first); the port of a broker that left is closed and stays reserved for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import Sequence
from functools import partial

import structlog

from gateway.kafka.cluster import Cluster
from gateway.proxy.produce.target_down import TargetDown
from gateway.proxy.session.behind_proxy import BehindProxy
from gateway.proxy.session.context import Sessions
from gateway.proxy.session.listener import Listener
from gateway.proxy.session.naming_clients import ServerNameReader
from gateway.proxy.session.proxy_session import ProxySession
from gateway.proxy.session.securing import Securing
from gateway.proxy.session.sides import ClientSide, UpstreamSide
from gateway.proxy.session.timeouts import Timeouts
from gateway.transport.background import kept_running
from gateway.transport.listening import Acceptor, connect, handshake_cost, listen
from gateway.transport.sockets import peer_host

_log = structlog.get_logger("lockgate.proxy")
CONNECT_TIMEOUT_S = 10.0
CONNECT_S = 0.0003
"""What a connection to a broker takes of the event loop: a thousand clients that begin at once are many turns."""
KNOWN_LOST_S = 1.0  # while others are served without their broker already
LOOK_S = 1.0
BACKLOG = 1024
HOLDS_OTHERS_UP = "answers not taken while others wait"
_REFUSED = {
    "connections": "a limit is reached",
    "address": "a limit is reached",
    "rate": "a limit is reached",
    "handshakes": "a limit is reached",
    "handshakes_of_all": "a limit is reached",
    "proxy": "it is none of proxy_protocol_from",
    "header": "no PROXY header was there in time",
}


class Listeners:
    """`listeners`: the first one is that of `listener` in the settings.

    Attributes:
        every: the listeners as given.
        target_down: serves those whose broker cannot be reached.
        target_tls: of the sessions to their brokers; None without TLS.

    `shares_ports`: with the other processes of this gateway.
    """

    def __init__(
        self,
        sessions: Sessions,
        *,
        target: Cluster,
        listeners: Sequence[Listener],
        target_tls: ssl.SSLContext | None,
        idle_timeout_s: float,
        rng: random.Random,
        plain_sockets: bool = True,
        shares_ports: bool = False,
    ) -> None:
        self._sessions = sessions
        self._shares_ports = shares_ports
        self._target = target
        self.target_down = TargetDown(target, sessions.routing, sessions.handlers, sessions.rights, self.advertised)
        self.every = tuple(listeners)
        self.target_tls = target_tls
        self._names = ServerNameReader(sessions.admission, self._is_known)
        self._behind_proxy = BehindProxy(
            sessions.loop, sessions.admission, self._refuse, sessions.limits.login_timeout_s
        )
        self._securing = Securing(sessions, self._refuse)
        self._timeouts = Timeouts(sessions.limits, idle_timeout_s)
        self._rng = rng
        self._accepts_sockets = plain_sockets
        self._connects_sockets = plain_sockets and target_tls is None
        self._addresses: dict[int, tuple[str, int]] = {}
        self._left: set[int] = set()
        self._ports: dict[int, int] = {}
        self._servers: dict[tuple[str, int | None], asyncio.Server | Acceptor] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._closing = False
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the bootstrap port and those of the brokers known now. Raises OSError when a port is taken."""
        self._sessions.connect = self._connect
        self._learn_names()
        for listener in self.every:
            if listener.tls is not None:
                self._sessions.handshakes.cost(handshake_cost(listener.tls()))
            await self._listen(listener, None, listener.bootstrap_port)
        for node_id, (host, port, _rack) in sorted(self._target.view.brokers.items()):
            self._addresses[node_id] = (host, port)
            self._ports[node_id] = self.every[0].port_of(node_id)
            for listener in self._with_ports:
                await self._listen(listener, node_id, listener.port_of(node_id))
        self._sweep()

    def ports(self) -> dict[int, int]:
        """Node id -> port at the first listener, of the brokers seen so far."""
        return dict(self._ports)

    def closed(self) -> list[str]:
        """The ports that should be open and are not: `bootstrap` and node ids, of a further listener with its name."""
        brokers, servers = self._target.view.brokers, self._servers
        return [
            listener.told(node)
            for listener in self.every
            for node in (None, *(brokers if listener.has_ports else ()))
            if (listener.name, node) not in servers
        ]

    def advertised(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        """Where clients of the first listener find this broker; learns a broker that was not known yet."""
        if self._addresses.get(node_id) != (host, port) or not self._is_open(node_id) or node_id in self._left:
            self._learn(node_id, host, port)
        first = self.every[0]
        return (
            first.broker(node_id)
            if first.by_name
            else (first.advertised_host, self._ports[node_id] + first.told_behind)
        )

    @property
    def _with_ports(self) -> list[Listener]:
        return [listener for listener in self.every if listener.has_ports]

    def _is_known(self, node_id: int) -> bool:
        """It is in the target's view, or in a response that was seen since it was."""
        return node_id in self._addresses and node_id not in self._left

    def _is_open(self, node_id: int) -> bool:
        servers = self._servers
        return all((listener.name, node_id) in servers for listener in self._with_ports)

    def brokers_changed(self) -> None:
        """The target's view changed: open ports for new brokers, close those of brokers that left."""
        self._learn_names()
        brokers = self._target.view.brokers
        for node_id, (host, port, _rack) in sorted(brokers.items()):
            self.advertised(node_id, host, port)
        if brokers:
            self._left = {node for node in self._addresses if node not in brokers}
        for key in [key for key in self._servers if key[1] is not None and brokers and key[1] not in brokers]:
            self._servers.pop(key).close()
            _log.info("broker left the target", node_id=key[1], listener=key[0])

    def ports_changed(self) -> None:
        """The records say which port is whose: move what was opened elsewhere, before they did.

        All that moves is closed first, since one broker's old port may be another one's new one. Connections that are
        there stay with their broker.
        """
        moved = [node for node, port in sorted(self._ports.items()) if self.every[0].port_of(node) != port]
        for node in moved:
            for listener in self._with_ports:
                if (made := self._servers.pop((listener.name, node), None)) is not None:
                    made.close()
        for node in moved:
            port = self.every[0].port_of(node)
            _log.warning("another gateway has given this broker its port", node_id=node, port=port)
            self._ports[node] = port
            if node in self._addresses and not self._closing:
                self._sessions.spawn(self._sessions.loop.create_task(self._open(node)))

    def _learn_names(self) -> None:
        self._sessions.own_names.learn({name: topic.topic_id for name, topic in self._target.view.topics.items()})

    def _learn(self, node_id: int, host: str, port: int) -> None:
        self._addresses[node_id] = (host, port)
        self._left.discard(node_id)
        if node_id not in self._ports:
            self._ports[node_id] = self.every[0].port_of(node_id)
        if not self._is_open(node_id) and not self._closing:
            work = self._sessions.loop.create_task(self._open(node_id))
            self._sessions.spawn(work)

    async def _open(self, node_id: int) -> None:
        for listener in self._with_ports:
            if (listener.name, node_id) in self._servers:
                continue
            try:
                await self._listen(listener, node_id, listener.port_of(node_id))
            except (OSError, ValueError) as error:
                _log.error("cannot listen for a broker", broker=listener.told(node_id), error=str(error))

    async def _listen(self, listener: Listener, node_id: int | None, port: int) -> None:
        loop, sessions = self._sessions.loop, self._sessions
        made: asyncio.Server | Acceptor
        if self._accepts_sockets:
            made = await listen(
                loop,
                listener.host,
                port,
                BACKLOG,
                lambda sock: sessions.accepts.do(lambda: self._accepted(listener, node_id, sock)),
                shared=self._shares_ports,
                rests=lambda: sessions.accepts.is_over,
            )
        else:
            tls = None if listener.tls is None else self._names.context(listener)
            made = await loop.create_server(
                lambda: ClientSide(sessions, node_id, listener), listener.host, port, ssl=tls, backlog=BACKLOG
            )
        self._servers[listener.name, node_id] = made
        _log.info("listening", broker=listener.told(node_id), host=listener.host, port=port)

    def _accepted(self, listener: Listener, node_id: int | None, sock: socket.socket) -> None:
        peer = peer_host(sock)
        if listener.proxies is None:
            self._admit(listener, node_id, sock, peer)
        else:
            self._behind_proxy.accepted(sock, peer, listener.proxies, partial(self._admit, listener, node_id))

    def _refuse(self, sock: socket.socket, host: str, limit: str) -> None:
        sock.close()
        count = self._sessions.admission.refused[limit]
        if not count & (count - 1):  # the 1st, 2nd, 4th ...: a flood must not fill the log
            _log.warning(f"a client is not accepted: {_REFUSED[limit]}", limit=limit, client=host, so_far=count)

    def _admit(self, listener: Listener, node_id: int | None, sock: socket.socket, host: str) -> None:
        limit = self._sessions.admission.refusal(host)
        if limit:
            self._refuse(sock, host, limit)
            return
        side = ClientSide(self._sessions, node_id, listener, host)
        if listener.tls is None:
            side.accepted(sock)
        else:
            self._securing.accepted(side, sock, host, partial(self._names.context, listener))

    # -- from a session to its broker ----------------------------------------------------------------------

    def _connect(self, session: ProxySession) -> None:
        sessions = self._sessions

        def begin() -> None:
            if not session.closed:
                sessions.spawn(sessions.loop.create_task(self._connect_session(session)))

        sessions.shares.pace(session.share, CONNECT_S, begin)

    async def _connect_session(self, session: ProxySession) -> None:
        try:
            host, port = self._address(session.node_id)
            loop, tls = self._sessions.loop, self.target_tls
            async with asyncio.timeout(KNOWN_LOST_S if self.target_down.sessions else CONNECT_TIMEOUT_S):
                if self._connects_sockets:
                    UpstreamSide(session).connected(await connect(loop, host, port))
                else:
                    await loop.create_connection(
                        lambda: UpstreamSide(session), host, port, ssl=tls, server_hostname=host if tls else None
                    )
        except (OSError, TimeoutError, LookupError) as error:
            if not self.target_down.takes(session):
                session.close(f"target broker unreachable: {session.node_id}: {error}")
            elif self._looking is None:
                self._looking = self._sessions.loop.create_task(
                    kept_running(self._look_for_brokers, "look for brokers"), name="look for brokers"
                )
                self._sessions.spawn(self._looking)

    async def _look_for_brokers(self) -> None:
        """Give sessions that are served without their brokers back to them."""
        target_down = self.target_down
        while target_down.sessions and not self._closing:
            await asyncio.sleep(LOOK_S)
            for node_id in dict.fromkeys(session.node_id for session in target_down.sessions):
                if await self._is_there(node_id):
                    _log.info("the target is reached again", node_id="bootstrap" if node_id is None else node_id)
                    for session in [each for each in target_down.sessions if each.node_id == node_id]:
                        target_down.sessions.pop(session, None)
                        session.drain()
        self._looking = None

    async def _is_there(self, node_id: int | None) -> bool:
        try:
            async with asyncio.timeout(LOOK_S):
                loop, address = self._sessions.loop, self._address(node_id)
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
        live = [n for n in self._target.view.brokers if n in self._addresses] or list(self._addresses)
        return self._addresses[self._rng.choice(live)]

    # -- timeouts and shutdown ---------------------------------------------------------------------------------

    def _sweep(self) -> None:
        now = self._sessions.clock()
        if self._target.available:
            self._sessions.rights.heard(now)
        for session, reason in self._timeouts.look(self._sessions.open, now):
            self._sessions.strangers.when_due(session.host, partial(session.close, reason))
        for taker in self._sessions.answers.too_slow(now):
            _log.warning("a client that takes no answers while others wait for their room is closed")
            taker.close(HOLDS_OTHERS_UP)
        self._sweeper = self._sessions.loop.call_later(self._timeouts.interval_s, self._sweep)

    async def close(self, grace_s: float) -> None:
        """Accept no more, answer what is in flight (at most `grace_s` seconds), close everything."""
        self._closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._servers.values():
            server.close()
        self._behind_proxy.close()
        self._securing.close()
        for session in list(self._sessions.open):
            session.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):  # wait_for of 3.11 can lose a cancellation
                await self._sessions.no_sessions.wait()
        for session in list(self._sessions.open):
            session.close("shutdown: grace is over")
        self._sessions.first_reads.close()
