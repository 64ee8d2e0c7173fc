"""REST: the HTTP server of one gateway, and the sockets it is reached by.

What uvicorn lacks is here: places for connections (`api/access/places.py`), a time for a request to arrive whole
(whoever sends a byte a second holds a connection for `request_timeout_s`, not for ever), client certificates, and
Unix sockets that are their owner's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import stat
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import h11
import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway.api.access.credentials import Peer, subject_of
from gateway.api.access.guard import PEER, PROVE, Guard, GuardPolicy
from gateway.api.access.places import NewConnections, Place, Places
from gateway.api.access.roles import Caller, Role
from gateway.api.leader_forwarding import LeaderForwarding
from gateway.config.api import Api, HttpBounds
from gateway.proxy.rules.admission import address_of
from gateway.runtime.api_credentials import LOCAL, ApiCredentials
from gateway.runtime.api_tls import TlsAcceptor
from gateway.runtime.server_tls import renewed_context
from gateway.transport.background import together

_TICK_S: Final = 1.0  # the Date header counts seconds
GRACE_S: Final = 3  # uvicorn takes whole seconds
# Longer than clients keep an idle connection (httpx 5 s, aiohttp 15 s): one that sends a request while its connection
# ends cannot know whether to repeat it. uvicorn's own 5 s are httpx's.
IDLE_S: Final = 30
BACKLOG: Final = 128
_HEADER_BYTES: Final = 32_768

_log = structlog.get_logger("lockgate.rest")


class ApiServer:
    """Serves from `start` to `close`."""

    def __init__(self, forwarding: LeaderForwarding, settings: Api) -> None:
        self._forwarding = forwarding
        self._settings = settings
        self._server: BoundedServer | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Raises OSError when the port is taken (uvicorn itself would exit), ValueError for files of no use."""
        settings = self._settings
        policy = GuardPolicy(
            hosts=frozenset(name.lower() for name in settings.allowed_hosts),
            max_body_bytes=settings.max_body_bytes,
            public_metrics=settings.public_metrics,
        )
        forwarding = self._forwarding
        guard = Guard(forwarding, ApiCredentials(settings).now, policy, forwarding.audit, forwarding.table)
        tls = None if settings.tls is None else renewed_context(settings.tls, "api.tls").get
        listening = listening_socket(settings)
        self._server = BoundedServer(guard, settings, tls)
        self._task = asyncio.create_task(self._server.serve([listening]), name="api")

    async def close(self) -> None:
        """Answer what is under way, at most `GRACE_S` seconds, and end."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            self._server.ending.set()
            await self._task
            if self._settings.socket:
                _remove(self._settings.socket)


def listening_socket(settings: Api) -> socket.socket:
    """Bound, and listening. Raises OSError when somebody else has the address."""
    if not settings.socket:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    path = Path(settings.socket)
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        listening.listen(BACKLOG)
    except OSError as exc:
        listening.close()
        raise OSError(exc.errno, f"api.socket: {path}: {exc.strerror}") from exc
    return listening


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """What a process left behind that was killed. Nothing but a socket that nobody listens on is removed."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise OSError(17, f"api.socket: {path} is there, and no socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
            else:
                raise OSError(98, f"api.socket: another process listens on {path}")


class BoundedServer(uvicorn.Server):
    """uvicorn without its signal handlers (the gateway has its own), and with limits for connections."""

    def __init__(self, app: Any, settings: HttpBounds, tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Connection,
                ws="none",
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=_HEADER_BYTES,
                timeout_graceful_shutdown=GRACE_S,
                timeout_keep_alive=IDLE_S,
            )
        )
        self.ending = asyncio.Event()
        self._settings = settings
        self._tls = tls
        self._places = Places(settings.max_connections, settings.connections_per_address)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn's own gives a TLS handshake a minute, and its certificate is for good."""
        await self.lifespan.startup()
        loop, settings = asyncio.get_running_loop(), self._settings

        arrivals = NewConnections(settings.connections_per_second, loop.time)

        def connection(*, is_counted: bool = False) -> _Connection:
            admits = None if is_counted else arrivals.take
            return _Connection(self.config, self.server_state, {}, loop, settings, self._places, admits)

        self.servers = []
        for listening in sockets or ():
            server: Any
            if listening.family == socket.AF_UNIX:
                server = await loop.create_unix_server(connection, sock=listening, backlog=BACKLOG)
            elif self._tls is None:
                server = await loop.create_server(connection, sock=listening, backlog=BACKLOG)
            else:
                server = TlsAcceptor(
                    listening,
                    loop,
                    partial(connection, is_counted=True),
                    admits=arrivals.take,
                    tls=self._tls,
                    handshake_s=settings.request_timeout_s,
                    most=settings.max_connections,
                    most_of_one=settings.connections_per_address,
                )
            self.servers.append(server)
        self.started = True

    async def main_loop(self) -> None:
        """uvicorn's own wakes up ten times a second to see whether it should end."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(together(_TICK_S, asyncio.get_running_loop().time())):
                    await self.ending.wait()

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        """uvicorn's own would take them from the gateway."""
        yield


class _Connection(H11Protocol):
    """A connection that knows who is at its other end, and cuts off requests that do not come to their end, and clients
    that do not take their answers."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        settings: HttpBounds | None = None,
        places: Places | None = None,
        admits: Callable[[str], bool] | None = None,
    ) -> None:
        """`admits`: whether one more of an address may come now; None: that was asked before TLS."""
        super().__init__(config, server_state, app_state, _loop)
        self._settings = settings or HttpBounds()
        self._places = places or Places(self._settings.max_connections, self._settings.connections_per_address)
        self._admits = admits
        self._place: Place | None = None
        self._arriving: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """asyncio."""
        super().connection_made(transport)
        address = "" if self.client is None else address_of(self.client[0])
        if self._admits is None or self._admits(address):
            self._place = self._places.enter(address, transport.abort, self._is_busy)
        if self._place is None:
            transport.abort()
            return
        self.app_state = {PEER: _peer(transport, self.client), PROVE: self._prove}
        self._expect()

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _prove(self, caller: Caller) -> bool:
        place = self._place
        return place is not None and self._places.prove(place, caller.name, is_admin=caller.role is Role.ADMIN)

    def data_received(self, data: bytes) -> None:
        """asyncio."""
        super().data_received(data)
        self._expect()

    def on_response_complete(self) -> None:
        """uvicorn: its own timer takes over until the next byte comes."""
        super().on_response_complete()
        self._expect(idle=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio."""
        self._arrived()
        self._taken()
        if self._place is not None:
            self._places.leave(self._place)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """asyncio: what was answered is not taken."""
        super().pause_writing()
        self._taken()
        self._leaving = self.loop.call_later(self._settings.request_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        """asyncio."""
        self._taken()
        super().resume_writing()

    def _expect(self, *, idle: bool = False) -> None:
        """A request is on its way, and must be here in time; or is here."""
        on_its_way = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if not on_its_way or (idle and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]):
            self._arrived()
        elif self._arriving is None and not self.transport.is_closing():
            self._arriving = self.loop.call_later(self._settings.request_timeout_s, self._too_slow)

    def _arrived(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def _taken(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None

    def _too_slow(self) -> None:
        self._arriving = None
        self.transport.abort()


_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid: socket(7), SO_PEERCRED


def _peer(transport: asyncio.Transport, client: tuple[str, int] | None) -> Peer:
    found = transport.get_extra_info("socket")
    if found is not None and found.family == socket.AF_UNIX:
        return Peer(address=_process_of(transport), owner=LOCAL)
    certificate = transport.get_extra_info("peercert")
    return Peer(
        address=f"{client[0]}:{client[1]}" if client else "",
        certificate=subject_of(certificate) if certificate else "",
    )


def _process_of(transport: asyncio.Transport) -> str:
    """Of the other end of a Unix socket, for the audit trail."""
    found = transport.get_extra_info("socket")
    try:
        pid, uid, _ = _CREDENTIALS.unpack(found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    except (OSError, AttributeError, struct.error):
        return "unix"
    return f"unix:uid={uid},pid={pid}"
