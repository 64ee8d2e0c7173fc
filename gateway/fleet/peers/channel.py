"""The channel between the gateways of a fleet: questions with answers, and heartbeats that nobody answers.

Each gateway dials every other one, and asks and heartbeats on the connection it has dialled; so between two gateways
there are two connections. A connection that breaks is dialled again with backoff; what was asked on it is
PeerUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from gateway.fleet.peers.certificates import Certificates
from gateway.fleet.peers.dial import Dial, PeerRefused, PeerUnavailable
from gateway.fleet.peers.serve import PeerServer
from gateway.fleet.peers.wire import encode
from gateway.transport.host import MACHINE, Host

__all__ = ["Handler", "PeerRefused", "PeerUnavailable", "Peers"]

Handler = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]

_CLOSE_S: Final = 1.0


class Peers:
    """One gateway's end of the channel.

    Args:
        name: this gateway's, the same over restarts.
        incarnation: this process's. A new incarnation of a name ends the connections of the one before.
        secret: of the fleet; '' while it is not known, then nobody is let in and nobody is dialled.
        on_heartbeat: (name of the sender, what it said), for each heartbeat.
        certificates: of TLS between gateways; None: there is no TLS, as in virtual time.

    Attributes:
        handlers: who answers a question, by `what`. Its body has `from`, the asker's name, besides what was sent. A
            NetError or ValueError it raises becomes the asker's PeerRefused. When the asker stops waiting, or its
            connection breaks, the handler is cancelled.
        on_gone: told of a peer whose connection broke and whose port refuses new ones: its process has ended.
    """

    def __init__(
        self,
        name: str,
        incarnation: str,
        secret: Callable[[], str],
        on_heartbeat: Callable[[str, Mapping[str, Any]], None],
        host: Host = MACHINE,
        certificates: Certificates | None = None,
    ) -> None:
        self.name = name
        self.handlers: dict[str, Handler] = {}
        self.on_gone: Callable[[str], None] = lambda peer: None
        self._incarnation = incarnation
        self._secret = secret
        self._host = host
        self._certificates = certificates
        self._server = PeerServer(name, incarnation, secret, on_heartbeat, self.handlers, host, certificates)
        self._dials: dict[str, Dial] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int) -> int:
        """Let the others in; port 0 takes any. Returns the port. Raises OSError when it is taken."""
        return await self._server.listen(host, port)

    def expect(self, addresses: Mapping[str, str]) -> None:
        """Name -> "host:port" of the other gateways: these are dialled, others are left. Its own name is left out."""
        for name, dial in list(self._dials.items()):
            if addresses.get(name) != dial.address:
                del self._dials[name]
                self._end(dial)
        for name, address in addresses.items():
            if name != self.name and name not in self._dials:
                self._dials[name] = self._dial(name, address)

    def _dial(self, name: str, address: str) -> Dial:
        return Dial(
            self.name,
            self._incarnation,
            self._secret,
            name,
            address,
            lambda: self.on_gone(name),
            self._host,
            self._certificates,
        )

    def expected(self) -> frozenset[str]:
        """The peers that `expect` named."""
        return frozenset(self._dials)

    def connected(self) -> frozenset[str]:
        """The peers that can be asked now."""
        return frozenset(name for name, dial in self._dials.items() if dial.is_open)

    def why_not(self, peer: str) -> str:
        """Why a peer cannot be reached now; '' when it can."""
        dial = self._dials.get(peer)
        return f"'{peer}' is none of this fleet" if dial is None else dial.last_error

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """Ask one gateway and wait for its answer; while it is not connected, wait for that too.

        Raises:
            PeerUnavailable: no answer in time, or the connection broke: whether it acted is unknown.
            PeerRefused: it says no; the message is its own.
        """
        dial = self._dials.get(peer)
        if dial is None:
            raise PeerUnavailable(f"gateway '{peer}' is not among the fleet's members")
        return await dial.ask(what, body, timeout_s)

    def tell(self, peer: str, body: Mapping[str, Any]) -> bool:
        """A heartbeat for one gateway. Never blocks; False when it was dropped: not connected, or it does not read."""
        dial = self._dials.get(peer)
        return dial is not None and dial.heartbeat(encode({"heartbeat": body}))

    def heartbeat(self, body: Mapping[str, Any]) -> None:
        """To all; never blocks, and is dropped where a peer does not read."""
        frame = encode({"heartbeat": body})
        for dial in self._dials.values():
            dial.heartbeat(frame)

    async def close(self) -> None:
        """Leave every peer and let nobody in any more."""
        for dial in self._dials.values():
            self._end(dial)
        self._dials.clear()
        await self._server.close()
        if self._ending:
            await asyncio.wait(tuple(self._ending), timeout=_CLOSE_S)

    def _end(self, dial: Dial) -> None:
        task = asyncio.get_running_loop().create_task(dial.close(), name=f"leave peer {dial.peer}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
