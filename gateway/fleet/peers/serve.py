"""The accepting end between gateways: lets in who proves that it is of the fleet, and answers. See
`fleet/peers/channel.py`."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from gateway.fleet.peers.certificates import Certificates
from gateway.fleet.peers.dial import STREAM_BYTES, USER_TIMEOUT_S, peer_fingerprint, tls_reason
from gateway.fleet.peers.wire import (
    GREETING_BYTES,
    MalformedPeer,
    encode,
    proof,
    read,
    require_proof,
    text,
    unknown_question,
)
from gateway.kafka.connection.errors import NetError
from gateway.transport.host import MACHINE, Host
from gateway.transport.listening import Acceptor, Slots, listen
from gateway.transport.sockets import tune

_log = logging.getLogger(__name__)

_GREETING_S: Final = 2.0
_STRANGERS: Final = 256  # connections that have not proved anything yet
_STRANGERS_OF_ONE: Final = 16  # of one address: a machine may run several gateways
_BACKLOG: Final = 128
_TOLD_S: Final = 60.0
_TOLD: Final = 100
_REFUSED_BYTES: Final = 400


class PeerServer:
    """See `fleet/peers/channel.py`."""

    def __init__(
        self,
        name: str,
        incarnation: str,
        secret: Callable[[], str],
        on_heartbeat: Callable[[str, Mapping[str, Any]], None],
        handlers: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]],
        host: Host = MACHINE,
        certificates: Certificates | None = None,
    ) -> None:
        self._name = name
        self._incarnation = incarnation
        self._secret = secret
        self._on_heartbeat = on_heartbeat
        self._handlers = handlers
        self._token_hex = host.token_hex
        self._certificates = certificates
        self._server: asyncio.Server | Acceptor | None = None
        self._told: dict[tuple[str, str], float] = {}
        self._strangers = Slots(_STRANGERS, _STRANGERS_OF_ONE)
        self._guests: dict[str, _Guest] = {}
        self._serving: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int) -> int:
        """Listen for peers; returns the port."""
        if self._certificates is not None:
            self._server = await listen(asyncio.get_running_loop(), host, port, _BACKLOG, self._arrived)
            return self._server.port
        self._server = await asyncio.start_server(self._accepted, host, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Let nobody in, end whoever is."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._serving):
            task.cancel()
        if self._serving:
            await asyncio.wait(tuple(self._serving))

    def _arrived(self, sock: socket.socket) -> None:
        """Somebody is there, and must show a certificate of the fleet before a byte of theirs is read."""
        try:
            address = str(sock.getpeername()[0])
        except OSError:
            sock.close()  # gone again
            return
        if not self._strangers.take(address):
            sock.close()
            return
        task = asyncio.get_running_loop().create_task(self._encrypt(sock, address), name=f"peer {address}")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _encrypt(self, sock: socket.socket, address: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            tls = self._certificates() if self._certificates is not None else None
            if tls is None:
                raise MalformedPeer("the fleet's secret is not known here yet")
            tune(sock, USER_TIMEOUT_S)
            reader = asyncio.StreamReader(limit=STREAM_BYTES)
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, sock, ssl=tls.accepts, ssl_handshake_timeout=_GREETING_S
            )
        except (OSError, ValueError, NetError) as exc:
            sock.close()
            if not isinstance(exc, ConnectionError):
                self._tell(address, tls_reason(exc) if isinstance(exc, ssl.SSLError) else str(exc))
            return
        finally:
            self._strangers.release(address)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        await self._accepted(reader, writer, (peer_fingerprint(writer), tls.fingerprint))

    def _tell(self, address: str, reason: str) -> None:
        """Once a minute the same: strangers must not fill the log."""
        now, told = asyncio.get_running_loop().time(), self._told
        if now - told.get((address, reason), float("-inf")) >= _TOLD_S:
            if len(told) >= _TOLD:
                told.clear()
            told[address, reason] = now
            _log.warning("a peer from %s was not let in: %s", address, reason)

    async def _accepted(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: tuple[str, ...] = ()
    ) -> None:
        """`seen`: fingerprints of both certificates, of who has dialled first."""
        task = asyncio.current_task()
        if task is not None:
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        try:
            guest = await self._greet(reader, writer, seen)
            if guest is not None:
                await self._serve(guest, reader)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # whoever dialled tries again
        except MalformedPeer as exc:
            _log.warning("a peer's connection was closed: %s", exc)
        except Exception:  # noqa: BLE001 - whatever was sent, it ends this connection alone
            _log.exception("a peer's connection was closed")
        except asyncio.CancelledError:
            pass  # by `close`, or by a newer connection of the same gateway; nobody waits for this task
        finally:
            writer.transport.abort()

    async def _greet(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: tuple[str, ...]
    ) -> _Guest | None:
        address = str((writer.get_extra_info("peername") or ("",))[0])
        if not self._strangers.take(address):
            return None
        try:
            async with asyncio.timeout(_GREETING_S):
                tune(writer.get_extra_info("socket"), USER_TIMEOUT_S)
                a, secret = self._token_hex(16), self._secret()
                writer.write(encode({"nonce": a}))
                hello = await read(reader, GREETING_BYTES)
                name, incarnation, b = text(hello, "name"), text(hello, "incarnation"), text(hello, "nonce")
                try:
                    require_proof(hello, secret, "dial", a, b, name, incarnation, text(hello, "to"), *seen)
                    if hello["to"] != self._name:
                        raise MalformedPeer(f"gateway '{name}' looks for '{hello['to']}', this is '{self._name}'")
                except MalformedPeer as exc:
                    writer.write(encode({"refused": str(exc)}))
                    await writer.drain()
                    raise
                said = proof(secret, "accept", a, b, self._name, self._incarnation, *seen)
                writer.write(encode({"name": self._name, "incarnation": self._incarnation, "proof": said}))
        finally:
            self._strangers.release(address)
        return _Guest(name, incarnation, writer, asyncio.current_task())

    async def _serve(self, guest: _Guest, reader: asyncio.StreamReader) -> None:
        before = self._guests.get(guest.name)
        self._guests[guest.name] = guest
        if before is not None:
            before.end()
        try:
            while True:
                self._take(guest, await read(reader))
        finally:
            if self._guests.get(guest.name) is guest:
                del self._guests[guest.name]
            for work in guest.working.values():
                work.cancel()

    def _take(self, guest: _Guest, message: Mapping[str, Any]) -> None:
        if "heartbeat" in message:
            try:
                self._on_heartbeat(guest.name, message["heartbeat"])
            except Exception:  # noqa: BLE001 - a heartbeat that is not understood is no heartbeat
                _log.exception("a heartbeat of gateway '%s' was not taken", guest.name)
            return
        if "cancel" in message:
            work = guest.working.get(message["cancel"])
            if work is not None:
                work.cancel()
            return
        number, what, body = message.get("ask"), message.get("what"), message.get("body")
        if not isinstance(number, int) or not isinstance(what, str) or not isinstance(body, dict):
            raise MalformedPeer(f"gateway '{guest.name}' sent what is no question")
        work = asyncio.get_running_loop().create_task(self._work(guest, number, what, body), name=f"peer {what}")
        guest.working[number] = work
        work.add_done_callback(lambda _: guest.working.pop(number, None))

    async def _work(self, guest: _Guest, number: int, what: str, body: dict[str, Any]) -> None:
        handler = self._handlers.get(what)
        if handler is None:
            guest.send({"answer": number, "refused": unknown_question(what)})
            return
        try:
            answer = encode({"answer": number, "body": await handler({**body, "from": guest.name})})
        except (NetError, ValueError) as exc:
            guest.send({"answer": number, "refused": (str(exc) or type(exc).__name__)[:_REFUSED_BYTES]})
        except Exception as exc:  # noqa: BLE001 - one question's fault stays this question's
            _log.exception("'%s' of gateway '%s' failed", what, guest.name)
            guest.send({"answer": number, "refused": f"{type(exc).__name__}: {exc}"[:_REFUSED_BYTES]})
        else:
            guest.write(answer)


class _Guest:
    """A peer that was let in. `working`: its questions that are being answered."""

    __slots__ = ("_task", "_writer", "incarnation", "name", "working")

    def __init__(
        self, name: str, incarnation: str, writer: asyncio.StreamWriter, task: asyncio.Task[None] | None
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.working: dict[int, asyncio.Task[None]] = {}
        self._writer = writer
        self._task = task

    def send(self, message: Mapping[str, Any]) -> None:
        self.write(encode(message))

    def write(self, frame: bytes) -> None:
        if not self._writer.transport.is_closing():
            self._writer.write(frame)

    def end(self) -> None:
        """A newer connection of the same gateway is there."""
        if self._task is not None:
            self._task.cancel()
