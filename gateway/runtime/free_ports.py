"""Whether the ports are free here: looked at before the fleet hears of this gateway.

One that cannot listen must not have taken partitions over from others, nor have replaced a process of its name.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from gateway.config.settings import Settings


class StartError(Exception):
    """The gateway cannot start. One line for the operator."""


def require_free(settings: Settings) -> None:
    """Raises StartError when one of the fixed ports is taken."""
    api = settings.api
    fixed = [
        (f"{where}.bootstrap_port", endpoint.host, endpoint.bootstrap_port)
        for where, endpoint in settings.endpoints().items()
    ]
    if not api.socket:
        fixed.append(("api.port", api.host, api.port))
    if settings.management.port:
        fixed.append(("management.port", settings.management.host, settings.management.port))
    for key, host, port in fixed:
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            socket.create_server((host, port), family=family).close()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise StartError(f"{key}: cannot listen on {host}:{port}: {reason}") from error


def require_broker_ports(
    settings: Settings, ports: Mapping[int, int], stored: Mapping[int, int], *, shared: bool
) -> None:
    """Raises ValueError when one of them is taken, and names the option that gives it another one.

    Args:
        ports: node id -> port at the first listener.
        stored: what the fleet has given out before.
        shared: with the other processes of this gateway (SO_REUSEPORT).
    """
    first = settings.listener
    for where, endpoint in settings.endpoints().items():
        if not endpoint.has_ports:
            continue
        for node, port in ports.items():
            own = endpoint.ports.get(node, endpoint.base_port + port - first.base_port)
            here = port if endpoint is first else own
            if reason := _taken(endpoint.host, here, shared=shared):
                why = f"cannot listen on {endpoint.host}:{here} for broker {node} of the target: {reason}"
                raise ValueError(f"{where}.{_remedy(settings, where, node, stored, why)}")


def _remedy(settings: Settings, where: str, node: int, stored: Mapping[int, int], why: str) -> str:
    if settings.endpoints()[where].ports:
        return f"ports: {why}"
    if where != "listener" or node not in stored:
        return f"base_port: {why}"
    return (
        f"ports: {why}; broker {node} has port {stored[node]} in this fleet (stored), so listener.base_port "
        f"{settings.listener.base_port} is not used: set listener.ports"
    )


def _taken(host: str, port: int, *, shared: bool) -> str:
    """Why nobody can listen there; '' when one can."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, port), family=family, reuse_port=shared).close()
    except (OSError, OverflowError) as error:
        number = error.errno if isinstance(error, OSError) else None
        return os.strerror(number) if number else str(error)
    return ""
