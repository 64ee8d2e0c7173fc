"""A connection to a gateway as bytes: by TLS or not, from one address of loopback or another, logged in or not."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

from bench.clients.raw import CLIENT_ID, address, read_frame
from protocol.codec import encode_request
from protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def trusting(ca: Path) -> ssl.SSLContext:
    """A client's context. Sessions are not resumed: each handshake is a whole one."""
    made = ssl.create_default_context(cafile=str(ca))
    made.options |= ssl.OP_NO_TICKET
    return made


def framed(message: Any, version: int) -> bytes:
    """A request with its size."""
    return encode_request(message, version, 1, CLIENT_ID)


async def connected(bootstrap: str, *, tls: ssl.SSLContext | None = None, source: str = "127.0.0.1") -> Wire:
    """Without a login. `source`: the address that it comes from. Raises OSError."""
    host, port = address(bootstrap)
    return await asyncio.open_connection(host, port, ssl=tls, local_addr=(source, 0))


async def logged_in(bootstrap: str, user: str, *, tls: ssl.SSLContext | None = None) -> Wire:
    """By PLAIN; the password is the name. Raises OSError, and EOFError when the gateway closes."""
    reader, writer = await connected(bootstrap, tls=tls)
    for message, version in (
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}".encode()), 2),
    ):
        writer.write(framed(message, version))
        await read_frame(reader)
    return reader, writer
