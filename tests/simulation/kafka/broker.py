"""One broker: requests in, answers out, by handlers in a registry; and the port it listens on.

A connection's requests are served one after another (KafkaServer mutes the channel meanwhile). A handler takes the
broker and the request and returns the response message, its encoded body (`bytes`: the hot paths), or None for no
answer at all (Produce with acks=0). A request that a broker would not understand closes the connection.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from protocol.apis import ApiKey, api_name
from protocol.codec import decode_request, encode_body
from protocol.errors import ProtocolError
from protocol.framing import FrameReader
from protocol.header import peek_request_header, response_prefix
from protocol.wire import Buffer

if TYPE_CHECKING:
    from tests.simulation.kafka.cluster import ClusterModel
    from tests.simulation.kafka.groups.group_offsets import GroupOffsets
    from tests.simulation.kafka.logs.fetch_session import FetchSessions
    from tests.simulation.kafka.topics import Topic

PORT = 9092
_SIZE_BYTES = 4
_NOTHING = (0, -1)
_ALONE: Final = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.FIND_COORDINATOR,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
    }
)
_FROM_MEMORY: Final = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
    }
)
"""What a broker answers besides that is cut off, if groups go on there. What it would ask others for waits until it has
them back."""


class CloseConnection(Exception):
    """The broker closes the connection instead of answering; the text says why."""


@dataclass(slots=True)
class Session:
    """What a broker knows of one connection, and what it does to it."""

    peer: str = "client"
    client_software: tuple[str, str] = ("", "")
    muted_s: float = 0.0
    """For how long the broker reads nothing behind its next answer (KIP-219)."""


@dataclass(slots=True)
class Request:
    """One request; `message` is its body decoded as the class of `protocol.messages`."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: Buffer
    session: Session
    _message: Any = None

    @property
    def message(self) -> Any:
        """The decoded body (decoded once, when asked for)."""
        if self._message is None:
            self._message = _decoded(self.key, self.version, bytes(self.body))
        return self._message


@functools.lru_cache(maxsize=1024)  # the same few questions are asked again and again; no handler changes one
def _decoded(key: int, version: int, body: bytes) -> Any:
    return decode_request(key, version, body, 1 << 30)


Handler = Callable[["Broker", Request], Awaitable[Any]]
Between = Callable[[Handler, "Broker", Request], Awaitable[Any]]
"""Stands between a request and its handler: answers itself, or asks the handler, sooner or later."""
HANDLERS: dict[int, Handler] = {}


def handles(key: int) -> Callable[[Handler], Handler]:
    """Register a handler for an API."""

    def register(handler: Handler) -> Handler:
        HANDLERS[int(key)] = handler
        return handler

    return register


@dataclass(slots=True)
class Refused:
    """A request that made the broker close a connection, for whoever reads the trace."""

    at: float
    peer: str
    why: str


@dataclass(slots=True, eq=False)
class Broker:
    """A broker of the cluster. `alive` is False after a kill, `paused` while it is stopped (SIGSTOP), `cut_off` while
    nothing of the controller or of other brokers reaches it: its clients do, and it answers them from what it knows.

    `lacks`: topics of which it has not heard yet, and which its Metadata answers do not know. `heard`: the topics of
    which it knew when it last heard of any creation or deletion, None while it hears of each at once. `fenced`: brokers
    that it takes for dead.
    """

    cluster: ClusterModel
    id: int
    sessions: FetchSessions
    alive: bool = True
    paused: bool = False
    refused: list[Refused] = field(default_factory=list)
    inbox: list[Callable[[], None]] = field(default_factory=list)  # what it is told while it is paused
    told: dict[tuple[int, bytes], bytes] = field(default_factory=dict)  # Metadata answers, see `metadata`
    told_at: int = -1
    server: Any = None
    lacks: set[str] = field(default_factory=set)
    heard: Mapping[str, Topic] | None = None
    offsets: GroupOffsets | None = None  # of groups, as it knows them while it is cut off, and goes on with them
    late_configs: bool = False  # it hears of no change of topics' configs
    _back: asyncio.Future[None] | None = None  # while it is cut off
    _fenced: frozenset[int] = frozenset()

    @property
    def host(self) -> str:
        """Its node's name."""
        return f"{self.cluster.name}-{self.id}"

    @property
    def running(self) -> bool:
        """True when it does anything at all."""
        return self.alive and not self.paused

    @property
    def cut_off(self) -> bool:
        """See the class."""
        return self._back is not None

    @property
    def connected(self) -> bool:
        """It runs, and hears of the others."""
        return self.running and self._back is None

    @property
    def fenced(self) -> Collection[int]:
        """See the class."""
        return self.cluster.fenced if self._back is None else self._fenced

    def cut(self, *, groups: bool = False) -> None:
        """It hears of nobody but its clients from now on. `groups`: those it coordinates go on, from memory."""
        self._back = self.cluster.loop.create_future()
        self._fenced = frozenset(self.cluster.fenced)
        self.heard = dict(self.cluster.topics)
        self.offsets = self.cluster.groups.offsets.copy() if groups else None

    def heal(self) -> None:
        """It hears of the others again."""
        back, self._back, self.heard, self.offsets = self._back, None, None, None
        if back is not None and not back.done():
            back.set_result(None)

    async def hears_again(self, within_s: float) -> bool:
        """Wait until it is cut off no more. False: not within that time."""
        if self._back is None:
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await asyncio.shield(self._back)
        return self._back is None

    def topics(self) -> Mapping[str, Topic]:
        """Those of which its Metadata answers know, by name."""
        known = self.cluster.topics if self.heard is None else self.heard
        return {name: topic for name, topic in known.items() if name not in self.lacks} if self.lacks else known

    def now_ms(self) -> int:
        """Its wall clock, milliseconds since 1970."""
        return self.cluster.wall_ms(self.host)

    async def handle(self, frame: Buffer, session: Session) -> bytes | None:
        """Serve one request frame (without its size); the answer without its size, None for no answer.

        Raises:
            CloseConnection: what a broker answers by closing the connection.
        """
        try:
            header = peek_request_header(frame)
        except ProtocolError as exc:
            raise self.close(session, str(exc)) from exc
        key, version = header.api_key, header.api_version
        handler = HANDLERS.get(key)
        low, high = self.cluster.served.get(key, _NOTHING)
        if not low <= version <= high and key != ApiKey.API_VERSIONS:
            raise self.close(session, f"{api_name(key)} v{version} is not served by {self.cluster.version}")
        if handler is None:
            raise self.close(session, f"{api_name(key)} v{version} has no handler in the model")
        body = memoryview(frame)[header.body_offset :]
        request = Request(key, version, header.correlation_id, header.client_id, body, session)
        alone = key in _ALONE or (self.offsets is not None and key in _FROM_MEMORY)
        if self._back is not None and not alone:
            await asyncio.shield(self._back)
        for between in self.cluster.between:
            handler = partial(between, handler)
        try:
            answer = await handler(self, request)
        except ProtocolError as exc:
            raise self.close(session, f"{api_name(key)} v{version}: {exc}") from exc
        if answer is None:
            return None
        if isinstance(answer, bytes):
            encoded = answer
        else:
            version = 0 if key == ApiKey.API_VERSIONS and answer.error_code == 35 else version
            encoded = encode_body(answer, version)
        return response_prefix(key, version, header.correlation_id, len(encoded))[_SIZE_BYTES:] + encoded

    def close(self, session: Session, why: str) -> CloseConnection:
        """Note why a connection is closed; raise what it returns."""
        self.refused.append(Refused(self.cluster.loop.time(), session.peer, why))
        self.cluster.trace(f"{self.host} closes a connection of {session.peer}: {why}")
        return CloseConnection(why)

    async def listen(self) -> None:
        """Open the port."""
        self.server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), self.host, PORT)


class _Connection(asyncio.Protocol):
    """One accepted connection: frames queue, one task serves them in order, from the first one until it is closed."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._reader = FrameReader()
        self._frames: deque[Buffer] = deque()
        self._idle: asyncio.Future[None] | None = None  # set while the task waits for a frame
        self._gone = False
        self._task: asyncio.Task[None] | None = None
        self._session = Session()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._session.peer = f"{peer[0]}:{peer[1]}" if peer else "client"

    def data_received(self, data: bytes) -> None:
        try:
            self._frames.extend(self._reader.feed(data))
        except ProtocolError:
            self._transport.abort()
            return
        if not self._frames:
            return
        idle = self._idle
        if self._task is None:
            name = f"{self._broker.host} serves {self._session.peer}"
            self._task = asyncio.get_running_loop().create_task(self._serve(), name=name)
        elif idle is not None:
            self._idle = None
            idle.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        if exc is not None:
            self._frames.clear()
        if self._idle is not None and self._task is not None:
            self._task.cancel()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._frames:
                if self._gone:
                    return
                self._idle = idle = loop.create_future()
                await idle
                continue
            try:
                answer = await self._broker.handle(self._frames.popleft(), self._session)
            except CloseConnection:
                self._frames.clear()
                self._transport.close()
                continue
            if answer is not None and not self._gone:
                self._transport.write(len(answer).to_bytes(_SIZE_BYTES, "big") + answer)
            if self._session.muted_s:
                muted_s, self._session.muted_s = self._session.muted_s, 0.0
                await asyncio.sleep(muted_s)
