"""Socket options, loopback addresses, and OS errors in words."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import ipaddress
import os
import socket
import ssl
import struct
import sys
import termios
from typing import Any

_AT_ONCE = struct.pack("ii", 1, 0)  # struct linger: on, 0 s
# Seconds; a peer that vanished silently is noticed after about idle + count * interval.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, without a lookup. No name but localhost is."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in _LOOPBACK_NAMES


def tune(sock: socket.socket | None, user_timeout_s: float) -> None:
    """Set TCP_NODELAY, keepalive, and the longest wait for acknowledgements (`user_timeout_s`)."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(sock)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(user_timeout_s * 1000))


def keep_alive(sock: socket.socket) -> None:
    """Set keepalive only: a vanished client is noticed although nothing is sent to it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def forget_unsent(sock: socket.socket | None) -> None:
    """Have the kernel drop unacknowledged bytes when the socket closes (SO_LINGER of 0 s).

    Without this it keeps sending, and bytes written before the close may arrive any time later.
    """
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)


def unacknowledged(sock: Any) -> int:
    """Bytes written to the socket that its peer has not acknowledged; 0 where the system does not tell."""
    try:
        return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except (AttributeError, OSError):
        return 0


def peer_host(sock: socket.socket) -> str:
    """The peer's address; '' when the peer is gone already."""
    try:
        return str(sock.getpeername()[0])
    except OSError:
        return ""


def connect_reason(exc: BaseException) -> str:
    """A short reason for a connection that could not be made or was lost."""
    if isinstance(exc, socket.gaierror):
        return f"the name does not resolve ({exc.strerror})"
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not trusted ({exc.verify_message})"
    if isinstance(exc, ssl.SSLError):
        return f"TLS failed ({exc.reason or exc})"
    if isinstance(exc, ConnectionRefusedError) or getattr(exc, "errno", None) == errno.ECONNREFUSED:
        return "connection refused"
    if isinstance(exc, ConnectionError) and not exc.errno:
        return "closed by the broker"
    if isinstance(exc, OSError) and exc.errno:
        return os.strerror(exc.errno).lower()
    return str(exc) or type(exc).__name__


async def readable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    """Wait until the socket is readable, or the peer has closed. Reads nothing."""
    ready = asyncio.Event()
    loop.add_reader(sock.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock.fileno())
