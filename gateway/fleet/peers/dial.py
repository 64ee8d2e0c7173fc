"""One gateway dials another: keeps the connection, asks on it, and sends heartbeats. See `fleet/peers/channel.py`."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

from gateway.fleet.peers.certificates import Certificates, PeerTls, fingerprint
from gateway.fleet.peers.wire import GREETING_BYTES, MalformedPeer, encode, proof, read, require_proof, text
from gateway.kafka.connection.errors import ClusterUnavailable, NetError
from gateway.transport.background import kept_running
from gateway.transport.backoff import Backoff
from gateway.transport.host import MACHINE, Host
from gateway.transport.sockets import connect_reason, tune

_log = logging.getLogger(__name__)

CONNECT_S: Final = 2.0
USER_TIMEOUT_S: Final = 3.0  # a peer that is cut off is noticed, and dialled anew
STREAM_BYTES: Final = 64 * 1024
_BACKOFF_S: Final = (0.05, 1.0)
_STEADY_S: Final = 1.0  # a connection that breaks sooner counts as a failed attempt
_UNREAD_HEARTBEATS: Final = 64 * 1024
_UNREAD_ASKS: Final = 16 * 1024 * 1024


class PeerUnavailable(ClusterUnavailable):
    """A gateway of the fleet did not answer. Whether it acted on what was asked is unknown."""


class PeerRefused(NetError):
    """A gateway of the fleet says no; the message is its own."""


class Dial:
    """The connection to one peer, for as long as it is expected. `address`: host:port.

    Args:
        on_gone: see `Peers`.
    """

    def __init__(
        self,
        name: str,
        incarnation: str,
        secret: Callable[[], str],
        peer: str,
        address: str,
        on_gone: Callable[[], None] = lambda: None,
        host: Host = MACHINE,
        certificates: Certificates | None = None,
    ) -> None:
        self.peer = peer
        self.address = address
        self.last_error = "not connected yet"
        self._name = name
        self._incarnation = incarnation
        self._secret = secret
        self._on_gone = on_gone
        self._host = host
        self._certificates = certificates
        self._writer: asyncio.StreamWriter | None = None
        self._opened = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._ids = count(1)
        self._left = False
        self._task = asyncio.get_running_loop().create_task(
            kept_running(self._run, f"peer {peer}"), name=f"peer {peer}"
        )

    @property
    def is_open(self) -> bool:
        """The peer can be asked now."""
        return self._writer is not None

    async def ask(self, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """Send a question on this connection, and wait for its answer."""
        number = next(self._ids)
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._opened.wait()
                if self._left:
                    raise PeerUnavailable(f"gateway '{self.peer}' is not at {self.address} any more")
                self._waiting[number] = answer
                if not self._send({"ask": number, "what": what, "body": body}, _UNREAD_ASKS):
                    raise PeerUnavailable(f"gateway '{self.peer}' does not read what it is asked")
                return await answer
        except TimeoutError:
            why = f" ({self.last_error})" if self.last_error else ""
            said = f"gateway '{self.peer}' did not answer '{what}' within {timeout_s:g} s{why}"
            raise PeerUnavailable(said) from None
        finally:
            if self._waiting.pop(number, None) is not None and answer.cancelled():
                self._send({"cancel": number}, _UNREAD_ASKS)

    def heartbeat(self, frame: bytes) -> bool:
        """A heartbeat, encoded. See `Peers.tell`."""
        return self._write(frame, _UNREAD_HEARTBEATS)

    async def close(self) -> None:
        """Leave the peer: it has another address, or none. Whoever still asks it is told at once."""
        self._left = True
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._opened.set()

    def _send(self, message: Mapping[str, Any], unread: int) -> bool:
        return self._write(encode(message), unread)

    def _write(self, frame: bytes, unread: int) -> bool:
        writer = self._writer
        if writer is None or writer.transport.is_closing() or writer.transport.get_write_buffer_size() > unread:
            return False
        writer.write(frame)
        return True

    async def _run(self) -> None:
        backoff = Backoff(*_BACKOFF_S, self._host.rng.random)
        was_there = False
        while True:
            try:
                async with asyncio.timeout(CONNECT_S):
                    reader, writer = await self._connect()
            except (OSError, ValueError, NetError, asyncio.IncompleteReadError, TimeoutError) as exc:
                self.last_error = f"{self.address}: {_reason(exc)}"
                if backoff.failures == 0:
                    _log.info("peer '%s' not reached: %s", self.peer, self.last_error)
                if was_there and isinstance(exc, ConnectionRefusedError):
                    was_there = False
                    self._on_gone()
                await asyncio.sleep(backoff.next())
                continue
            was_there, since = True, asyncio.get_running_loop().time()
            await self._serve(reader, writer)
            if asyncio.get_running_loop().time() - since >= _STEADY_S:
                backoff.reset()
            else:
                await asyncio.sleep(backoff.next())

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        secret = self._secret()
        if not secret:
            raise MalformedPeer("the fleet's secret is not known yet")
        host, _, port = self.address.rpartition(":")
        tls = None if self._certificates is None else _known(self._certificates())
        reader, writer = await asyncio.open_connection(
            host.strip("[]"), int(port), ssl=None if tls is None else tls.dials, limit=STREAM_BYTES
        )
        try:
            tune(writer.get_extra_info("socket"), USER_TIMEOUT_S)
            seen = () if tls is None else (tls.fingerprint, peer_fingerprint(writer))
            a = text(await self._first(reader), "nonce")
            b = self._host.token_hex(16)
            said = ("dial", a, b, self._name, self._incarnation, self.peer, *seen)
            greeting = {"name": self._name, "incarnation": self._incarnation, "to": self.peer, "nonce": b}
            writer.write(encode({**greeting, "proof": proof(secret, *said)}))
            answer = await read(reader, GREETING_BYTES)
            if "refused" in answer:
                raise MalformedPeer(f"it says: {answer['refused']}")
            require_proof(answer, secret, "accept", a, b, text(answer, "name"), text(answer, "incarnation"), *seen)
            if answer["name"] != self.peer:
                raise MalformedPeer(f"gateway '{answer['name']}' answers there")
        except BaseException:
            writer.transport.abort()
            raise
        return reader, writer

    async def _first(self, reader: asyncio.StreamReader) -> dict[str, Any]:
        try:
            return await read(reader, GREETING_BYTES)
        except (asyncio.IncompleteReadError, ConnectionError):
            if self._certificates is None:
                raise
            # With TLS 1.3 our end is ready before the other has looked at our certificate, and asyncio sends no alert.
            raise MalformedPeer(
                "it closed the connection before its greeting: its log says whether it takes this gateway's certificate"
            ) from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the connection breaks."""
        self._writer, self.last_error = writer, ""
        self._opened.set()
        try:
            while True:
                self._answered(await read(reader))
        except (OSError, NetError, asyncio.IncompleteReadError) as exc:
            self.last_error = f"{self.address}: {_reason(exc)}"
        finally:
            self._opened.clear()
            self._writer = None
            writer.transport.abort()
            for answer in self._waiting.values():
                if not answer.done():
                    reason = f"the connection to gateway '{self.peer}' broke: {self.last_error}"
                    answer.set_exception(PeerUnavailable(reason))

    def _answered(self, message: Mapping[str, Any]) -> None:
        answer = self._waiting.get(message.get("answer", 0))
        if answer is None or answer.done():
            return
        if "refused" in message:
            answer.set_exception(PeerRefused(f"gateway '{self.peer}': {message['refused']}"))
            return
        body = message.get("body")
        answer.set_result(body if isinstance(body, dict) else {})


def _reason(exc: BaseException) -> str:
    if isinstance(exc, TimeoutError):
        return f"not connected within {CONNECT_S:g} s"
    if isinstance(exc, asyncio.IncompleteReadError):
        return "closed by the peer"
    if isinstance(exc, ssl.SSLError):
        return tls_reason(exc)
    if isinstance(exc, socket.gaierror | OSError):
        return connect_reason(exc)
    return str(exc)


def _known(tls: PeerTls | None) -> PeerTls:
    if tls is None:
        raise MalformedPeer("the fleet's secret is not known yet")
    return tls


def peer_fingerprint(writer: asyncio.StreamWriter) -> str:
    """Of the certificate at the other end of a TLS connection."""
    return fingerprint(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))


def tls_reason(exc: ssl.SSLError) -> str:
    """Why TLS between two gateways failed, in words of either end."""
    reason = str(exc.reason or exc).replace("_", " ").lower()
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate is not of this fleet ({exc.verify_message})"
    if "did not return a certificate" in reason:
        return "it has no certificate"
    if "alert" in reason:
        return f"it does not take this gateway's certificate ({reason})"
    return f"no TLS with it ({reason})"
