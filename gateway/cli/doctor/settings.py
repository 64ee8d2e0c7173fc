"""What a gateway's settings say of places: where its API is, what it listens on, and which certificates it shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from gateway.config.listeners import Endpoint
from gateway.config.settings import Settings
from gateway.doctor.machine import look_at_port
from gateway.doctor.places import look_at_file
from gateway.doctor.rules.facts import FileFacts, PortFacts
from gateway.transport.sockets import is_loopback

_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - a comparison


def api_url(settings: Settings) -> str:
    """Of the gateway with these settings, from its own machine."""
    api = settings.api
    if api.socket:
        return f"unix:{api.socket}"
    host = "127.0.0.1" if api.host in _EVERYWHERE else api.host
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if api.tls else 'http'}://{name}:{api.port}"


def told_hosts(settings: Settings) -> Iterator[tuple[str, str]]:
    """Option and host that clients are told, of each listener whose brokers have ports."""
    for where, endpoint in settings.endpoints().items():
        if endpoint.has_ports:
            yield f"{where}.host", endpoint.advertised


def listener_properties(settings: Settings, endpoint: Endpoint) -> dict[str, str]:
    """How somebody with the gateway's own login comes to a listener without TLS."""
    host, port = endpoint.advertised_bootstrap
    name = f"[{host}]" if ":" in host else host
    security = {key: value for key, value in settings.target.items() if not key.startswith("ssl.")}
    logs_in = settings.target.get("security.protocol", "").upper().startswith("SASL")
    protocol = ("SASL_" if logs_in else "") + ("SSL" if endpoint.tls else "PLAINTEXT")
    return {**security, "bootstrap.servers": f"{name}:{port}", "security.protocol": protocol}


def look_at_ports(settings: Settings) -> tuple[PortFacts, ...]:
    """Of a gateway that does not run: whether each port is free here."""
    wanted: list[tuple[str, str, int]] = []
    for where, endpoint in settings.endpoints().items():
        wanted.append((f"{where}.bootstrap_port", endpoint.host, endpoint.bootstrap_port))
        wanted += [(f"{where}.ports.{node}", endpoint.host, port) for node, port in endpoint.ports.items()]
        if endpoint.has_ports and not endpoint.ports:
            wanted.append((f"{where}.base_port", endpoint.host, endpoint.base_port))
    if not settings.api.socket:
        wanted.append(("api.port", settings.api.host, settings.api.port))
    if settings.management.port:
        wanted.append(("management.port", settings.management.host, settings.management.port))
    return tuple(look_at_port(*each) for each in wanted)


def look_at_files(settings: Settings, nodes: Iterable[int]) -> tuple[FileFacts, ...]:
    """Each certificate that the settings name, once. `nodes`: of the target's brokers, as far as they are known."""
    known = tuple(nodes)
    found: dict[Path, tuple[str, tuple[str, ...]]] = {}
    for where, endpoint in settings.endpoints().items():
        if endpoint.tls is not None:
            found[endpoint.tls.certificate] = (f"{where}.tls.certificate", _told(endpoint, known))
    if settings.api.tls is not None:
        found.setdefault(settings.api.tls.certificate, ("api.tls.certificate", ()))
    if settings.fleet.tls is not None:
        found.setdefault(settings.fleet.tls.certificate, ("fleet.tls.certificate", ()))
    if own := settings.target.get("ssl.certificate.location"):
        found.setdefault(Path(own), ("target.ssl.certificate.location", ()))
    return tuple(
        FileFacts(option=option, path=str(path), certificate=look_at_file(path), told=told)
        for path, (option, told) in found.items()
    )


def _told(endpoint: Endpoint, nodes: tuple[int, ...]) -> tuple[str, ...]:
    names = endpoint.names
    if names is not None:
        return (names.bootstrap, *map(names.host_of, nodes))
    told = endpoint.advertised
    return () if told in _EVERYWHERE or is_loopback(told) else (told,)
