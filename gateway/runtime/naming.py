"""What a gateway is called, and where the others find it."""

from __future__ import annotations

import socket

from gateway.config.settings import Settings
from gateway.transport.sockets import is_loopback


def name_of(settings: Settings) -> str:
    """This gateway's name: as set, else from its listener, with the host's name where the address is not unique."""
    host, port = settings.listener.host, settings.listener.bootstrap_port
    if settings.fleet.name:
        return settings.fleet.name
    if host in _EVERYWHERE:
        return f"{socket.gethostname()}:{port}"
    return f"{socket.gethostname()}-{host}:{port}" if is_loopback(host) else f"{host}:{port}"


_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - a comparison


def peer_hosts(settings: Settings) -> tuple[str, str]:
    """Where to listen for the other gateways, and the host that they are told."""
    host = settings.fleet.peer_host or settings.listener.host
    return host, socket.gethostname() if host in _EVERYWHERE else host
