"""Who is at the other end of a conversation: connections of the data plane and of peers, and requests to REST."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.api.access.credentials import Peer
from gateway.api.access.guard import PEER
from gateway.fleet.peers.wire import encode, proof
from tests.fuzz.loop import CAUSE
from tests.fuzz.stage import API_HOST, PEER_PORT, TOKENS, Stage
from tests.simulation.fleet.gateway_node import BOOTSTRAP_PORT
from tests.simulation.fleet.rest import http_scope
from tests.simulation.kernel.node import CURRENT

_PEER_SIZE: Final = 4


@dataclass(eq=False)
class Caller:
    """Somebody outside. `accepted`, `touched`, `login_bytes`: see `loop.Cause`. `sent`, `received`: bytes."""

    name: str
    accepted: bool = False
    touched: list[str] = field(default_factory=list)
    login_bytes: int = 0
    sent: int = 0
    received: int = 0
    lost: bool = False

    def __str__(self) -> str:
        return self.name


class Connection(asyncio.Protocol):
    """A connection that sends what it is told, and takes what comes."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.first = b""  # the first bytes that came
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """asyncio."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """asyncio."""
        self.caller.received += len(data)
        if len(self.first) < 1024:
            self.first += data

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio."""
        self.caller.lost = True

    def send(self, data: bytes) -> None:
        """Write, unless the connection is gone."""
        if not self.caller.lost:
            self.caller.sent += len(data)
            self.transport.write(data)


async def connected(stage: Stage, caller: Caller, place: str) -> Connection | None:
    """A connection to the bootstrap port, a broker's port or the peers' port; None when it is refused."""
    ports = {"bootstrap": BOOTSTRAP_PORT, "peer": PEER_PORT}
    port = ports[place] if place in ports else next(iter(stage.node.gateway._data.listeners.ports().values()))
    node = stage.loop.node(caller.name)
    context = node.context.copy()
    context.run(CAUSE.set, caller)
    connection = Connection(caller)

    async def connect() -> None:
        await stage.loop.create_connection(lambda: connection, stage.node.name, port)

    try:
        await asyncio.get_running_loop().create_task(connect(), name=f"{caller.name} connects", context=context)
    except OSError:
        return None
    return connection


def greeting(stage: Stage, connection: Connection, hello: bytes) -> bytes:
    """The peer's greeting with a proof that is true: it answers the nonce that came."""
    said = json.loads(hello[_PEER_SIZE:])
    nonce = str(json.loads(connection.first[_PEER_SIZE:])["nonce"])
    secret = stage.node.gateway._peering._secret()
    words = (nonce, said["nonce"], said["name"], said["incarnation"], said["to"])
    connection.caller.accepted = True
    return encode({**said, "proof": proof(secret, "dial", *words)})


async def asked(
    stage: Stage, caller: Caller, place: str, headers: Sequence[tuple[str, str]], body: bytes, pieces: int
) -> int:
    """A request to REST as uvicorn hands it over. Returns the status; 0 when the gateway has closed it."""
    method, _, target = place.partition(" ")
    said = dict(headers).get("authorization", "")
    caller.accepted = said.partition(" ")[2] in TOKENS
    encoded = [(name.encode(), value.encode("utf-8")) for name, value in headers]
    scope = http_scope(method, target, encoded, API_HOST, API_HOST) | {"state": {PEER: Peer(address=API_HOST)}}
    context = stage.node.node.context.copy()
    context.run(CAUSE.set, caller)
    assert context[CURRENT] is stage.node.node
    status: list[int] = []
    events = iter(_events(body, pieces))

    async def receive() -> Any:
        return next(events, {"type": "http.disconnect"})

    async def send(event: Any) -> None:
        if event["type"] == "http.response.start":
            status.append(int(event["status"]))
        caller.received += len(event.get("body", b""))

    work = stage.guard(scope, receive, send)
    task = stage.loop.create_task(work, name=f"api {method} {target[:60]}", context=context)
    await asyncio.wait((task,), timeout=60.0)
    if task.done() and not task.cancelled():
        task.result()
    else:
        task.cancel()
    return status[0] if status else 0


def _events(body: bytes, pieces: int) -> list[dict[str, Any]]:
    size = max(1, -(-len(body) // max(pieces, 1)))
    cut = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
    return [{"type": "http.request", "body": piece, "more_body": at < len(cut) - 1} for at, piece in enumerate(cut)]
