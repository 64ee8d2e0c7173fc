"""The network between nodes: links with a delay, connections over them, and what can go wrong with either.

A link is one direction between two machines. Its bytes are never lost while a connection lives (TCP sends them again):
a cut link holds them until it is healed. Faults on single connections: `reset`, and hooks that break one at a segment
of their choice.

    network.cut("gw-0", "source-2")             # gw-0's bytes do not reach the broker; the broker's reach gw-0
    network.slow("source-*", "*", 0.2)          # a name, a prefix with *, or everybody
    network.on_segment.append(hook)             # hook(Segment) -> None, "drop-connection", or bytes to deliver
"""

from __future__ import annotations

import asyncio
import errno
import math
import random
import socket
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from tests.simulation.kernel.node import Node, State
from tests.simulation.kernel.transport import Endpoint

if TYPE_CHECKING:
    from tests.simulation.kernel.loop import SimLoop

LATENCY_S = 0.000_3
JITTER_S = 0.000_4
_HERE = ("", "0.0.0.0", "127.0.0.1", "localhost", "::", "::1")


class Segment(NamedTuple):
    """What a hook sees. `dst_port`: where the connection's server listens, whichever way the bytes go."""

    src: str
    dst: str
    dst_port: int
    from_client: bool
    data: bytes


Hook: TypeAlias = Callable[[Segment], Literal["drop-connection"] | int | None]
"""None: as it is. "drop-connection": the segment is lost, and the connection with it. A number: only so many bytes of
the segment arrive before the connection breaks."""


class Link:
    """One direction between two machines.

    Attributes:
        latency_s, jitter_s: each segment takes the first and a random part of the second.
        bytes_per_s: of each connection; 0 for no limit.
    """

    __slots__ = (
        "_uniform",
        "bytes_per_s",
        "cut_at",
        "dst",
        "endpoints",
        "held",
        "is_cut",
        "jitter_s",
        "latency_s",
        "src",
    )

    def __init__(self, src: str, dst: str, rng: random.Random) -> None:
        self.src = src
        self.dst = dst
        self._uniform = rng.random
        self.latency_s = LATENCY_S
        self.jitter_s = JITTER_S
        self.bytes_per_s = 0.0
        self.is_cut = False
        self.cut_at = math.inf  # since when
        self.endpoints: dict[Endpoint, None] = {}  # that send over it
        self.held: list[Callable[[], None]] = []  # steps of connecting that wait until it is healed

    def delay_s(self) -> float:
        """Of the next segment."""
        return self.latency_s + self.jitter_s * self._uniform()


class Server(asyncio.AbstractServer):
    """A listening port."""

    def __init__(self, network: Network, node: Node, port: int, factory: Callable[[], Any]) -> None:
        self.node = node
        self.port = port
        self.factory = factory
        self.context = copy_context()
        self._loop = network.loop
        self.sockets: tuple[_Listening, ...] = (_Listening(node.name, port),)

    def close(self) -> None:
        """Accept no more; what is accepted goes on."""
        if self.node.servers.get(self.port) is self:
            del self.node.servers[self.port]
        self.sockets = ()

    def get_loop(self) -> Any:
        """As asyncio's."""
        return self._loop

    def is_serving(self) -> bool:
        """As asyncio's."""
        return bool(self.sockets)

    async def start_serving(self) -> None:
        """It does from the beginning."""

    async def serve_forever(self) -> None:
        """Until cancelled."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.close()

    async def wait_closed(self) -> None:
        """As asyncio's of 3.11: at once."""


class _Listening(NamedTuple):
    host: str
    port: int

    def getsockname(self) -> tuple[str, int]:
        return self.host, self.port


class Network:
    """See the module. `connections`: how many were ever made."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.on_segment: list[Hook] = []
        self.connections = 0
        self._links: dict[tuple[str, str], Link] = {}
        self._cuts: dict[tuple[str, str], None] = {}
        self._slow: dict[tuple[str, str], tuple[float, float]] = {}

    # -- faults --------------------------------------------------------------------------------------------------

    def cut(self, a: str, b: str) -> None:
        """Bytes from a to b are held until `heal` with the same names. A name, "source-*" or "*"."""
        self._cuts[a, b] = None
        self._apply()

    def heal(self, a: str = "*", b: str = "*") -> None:
        """Undo the cuts from a to b; with "*" the cuts of whatever name."""
        self._cuts = {key: None for key in self._cuts if not (_named(key[0], a) and _named(key[1], b))}
        self._apply()

    def slow(self, a: str, b: str, latency_s: float, bytes_per_s: float = 0.0) -> None:
        """Segments from a to b take so long from now on; a later call for the same names replaces it."""
        self._slow[a, b] = (latency_s, bytes_per_s)
        self._apply()

    def fast(self, a: str = "*", b: str = "*") -> None:
        """Undo `slow`; with "*" that of whatever name."""
        self._slow = {key: how for key, how in self._slow.items() if not (_named(key[0], a) and _named(key[1], b))}
        self._apply()

    def reset(self, a: str, b: str) -> int:
        """Break the open connections between a and b, whoever made them. Returns how many."""
        found = [
            endpoint
            for link in tuple(self._links.values())
            if _named(link.src, a) and _named(link.dst, b)
            for endpoint in tuple(link.endpoints)
        ]
        for endpoint in found:
            self.break_connection(endpoint)
        return len(found)

    def break_connection(self, endpoint: Endpoint) -> None:
        """Both sides find the connection reset."""
        endpoint.lost()
        endpoint.peer.lost()

    def ask_hooks(self, endpoint: Endpoint, data: bytes) -> int | None:
        """How many bytes arrive before the connection breaks; None: all, and it does not break."""
        link = endpoint.link
        segment = Segment(link.src, link.dst, endpoint.port, endpoint.from_client, data)
        for hook in tuple(self.on_segment):
            answer = hook(segment)
            if answer is not None:
                return 0 if answer == "drop-connection" else int(answer)
        return None

    def close(self) -> None:
        """The simulation is over: no connection is open any more."""
        for link in tuple(self._links.values()):
            for endpoint in link.endpoints:
                endpoint.is_over()

    def forget(self) -> None:
        """Nobody is there any more: by its connections the network has all that used it."""
        self._links.clear()
        self.on_segment.clear()

    # -- links ---------------------------------------------------------------------------------------------------

    def link(self, src: str, dst: str) -> Link:
        """The way from one machine to another."""
        found = self._links.get((src, dst))
        if found is None:
            found = self._links[src, dst] = Link(src, dst, self.loop.random(f"link {src} {dst}"))
            self._apply_to(found)
        return found

    def _apply(self) -> None:
        for link in tuple(self._links.values()):
            self._apply_to(link)

    def _apply_to(self, link: Link) -> None:
        link.latency_s, link.bytes_per_s = LATENCY_S, 0.0
        for (a, b), (latency_s, bytes_per_s) in self._slow.items():
            if _named(link.src, a) and _named(link.dst, b):
                link.latency_s, link.bytes_per_s = latency_s, bytes_per_s
        was_cut = link.is_cut
        link.is_cut = any(_named(link.src, a) and _named(link.dst, b) for a, b in self._cuts)
        if link.is_cut and not was_cut:
            link.cut_at = self.loop.now
        if was_cut and not link.is_cut:
            link.cut_at = math.inf
            held, link.held = link.held, []
            for step in held:
                self._send(link, step)
            for endpoint in tuple(link.endpoints):
                endpoint.arm()

    def _send(self, link: Link, step: Callable[[], None]) -> None:
        """Have a step of connecting happen on the other side."""
        loop = self.loop
        loop.at(loop.lab, loop.now + link.delay_s(), loop.lab.context, self._step, link, step)

    def _step(self, link: Link, step: Callable[[], None]) -> None:
        if link.is_cut:
            link.held.append(step)
        else:
            step()

    # -- connections ---------------------------------------------------------------------------------------------

    def resolve(self, host: Any, port: Any) -> list[tuple[Any, ...]]:
        """As getaddrinfo. Raises socket.gaierror for a name that no node has."""
        name = host.decode() if isinstance(host, bytes) else host or ""
        if name not in _HERE and name not in self.loop.nodes:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (name, port))]

    def listen(self, node: Node, factory: Callable[[], Any], port: int | None) -> Server:
        """Raises OSError when the node listens there already."""
        chosen = port or node.free_port()
        if chosen in node.servers:
            raise OSError(errno.EADDRINUSE, f"{node.name}:{chosen}: Address already in use")
        server = node.servers[chosen] = Server(self, node, chosen, factory)
        return server

    async def connect(self, node: Node, factory: Callable[[], Any], host: Any, port: int) -> tuple[Endpoint, Any]:
        """Raises ConnectionRefusedError, socket.gaierror; waits as long as a link on the way is cut."""
        name = self.resolve(host, port)[0][4][0]
        dst = node.name if name in _HERE else name
        there, back = self.link(node.name, dst), self.link(dst, node.name)
        answer: asyncio.Future[Endpoint] = self.loop.create_future()
        context = copy_context()
        own_port = node.free_port()

        def refused() -> None:
            if not answer.done():
                answer.set_exception(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))

        def asked() -> None:
            target = self.loop.nodes[dst]
            server = target.servers.get(port)
            if server is None or target.state is State.DEAD:
                self._send(back, refused)
                return
            here = Endpoint(self, node, context, there, port, from_client=True)
            other = Endpoint(self, target, server.context.copy(), back, port, from_client=False)
            here.peer, other.peer, here.own_port = other, here, own_port
            self.connections += 1
            self.loop.call_soon(_accept, server, other, context=other.context)
            self._send(back, lambda: connected(here))

        def connected(endpoint: Endpoint) -> None:
            if answer.done() or node.state is State.DEAD:
                endpoint.abort()
            else:
                answer.set_result(endpoint)

        self._send(there, asked)
        try:
            endpoint = await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                answer.result().abort()
            raise
        protocol = factory()
        endpoint.start(protocol)
        return endpoint, protocol


def _accept(server: Server, endpoint: Endpoint) -> None:
    if endpoint.is_closing():
        return
    if server.node.servers.get(server.port) is not server:
        endpoint.abort()
        return
    endpoint.start(server.factory())


def _named(name: str, pattern: str) -> bool:
    return pattern in ("*", name) or (pattern.endswith("*") and name.startswith(pattern[:-1]))
