"""Looks at places: every address of a name, whether it takes a connection, and the certificate that is shown there."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cryptography import x509

from gateway.doctor.rules.facts import AddressFacts, CertificateFacts, PlaceFacts
from gateway.kafka.connection.config import ClusterConfig
from gateway.transport.sockets import connect_reason

ADDRESSES: Final = 16
"""Of one name, that are tried."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds for one connection (with its name's addresses), for one answer, and for all of a cluster; and how many
    connections are tried at the same time."""

    connect_s: float = 5.0
    answer_s: float = 10.0
    cluster_s: float = 60.0
    at_once: int = 16


PATIENCE: Final = Patience()


async def look_at_places(
    places: Iterable[tuple[str, int]], config: ClusterConfig, patience: Patience, *, advertised: bool
) -> tuple[PlaceFacts, ...]:
    """Of each (host, port), in order. `config`: how its TLS is checked. Raises nothing."""
    slots = asyncio.Semaphore(patience.at_once)

    async def look(host: str, port: int) -> PlaceFacts:
        async with slots:
            return await _look_at(host, port, config, patience.connect_s, advertised=advertised)

    return tuple(await asyncio.gather(*(look(*place) for place in places)))


async def _look_at(host: str, port: int, config: ClusterConfig, timeout_s: float, *, advertised: bool) -> PlaceFacts:
    try:
        found = await _resolved(host, port, timeout_s)
    except OSError as exc:
        why = exc.strerror or str(exc)
        return PlaceFacts(host=host, port=port, unresolved=why, advertised=advertised)
    addresses = tuple(await asyncio.gather(*(_tried(address, port, timeout_s) for address in found)))
    place = PlaceFacts(host=host, port=port, addresses=addresses, advertised=advertised)
    open_at = next((one.address for one in addresses if not one.error), None)
    if open_at is None or not config.uses_tls:
        return place
    return replace(place, certificate=await _shown(host, open_at, port, config, timeout_s))


async def _resolved(host: str, port: int, timeout_s: float) -> list[str]:
    """Both families. Raises OSError."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except TimeoutError:
        raise OSError(f"no answer within {timeout_s:g} s") from None
    except UnicodeError:  # a label that no DNS name can have
        raise OSError("it is no name") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))[:ADDRESSES]


async def _tried(address: str, port: int, timeout_s: float) -> AddressFacts:
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(address, port)
    except TimeoutError:
        return AddressFacts(address=address, error=f"no answer within {timeout_s:g} s")
    except OSError as exc:
        return AddressFacts(address=address, error=connect_reason(exc))
    writer.transport.abort()
    return AddressFacts(address=address)


async def _shown(host: str, address: str, port: int, config: ClusterConfig, timeout_s: float) -> CertificateFacts:
    """As a client with this configuration sees it; and what it refuses, seen without the check."""
    try:
        return await _handshake(host, address, port, config, timeout_s)
    except (OSError, ValueError) as exc:
        error = connect_reason(exc)
        if not isinstance(exc, ssl.SSLCertVerificationError):
            return CertificateFacts(error=error)
    unchecked = replace(config, tls=replace(config.tls, verify_certificate=False))
    with suppress(OSError, ValueError):
        return replace(await _handshake(host, address, port, unchecked, timeout_s), error=error)
    return CertificateFacts(error=error)


async def _handshake(host: str, address: str, port: int, config: ClusterConfig, timeout_s: float) -> CertificateFacts:
    """Raises OSError, ValueError."""
    context = config.ssl_context()
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(address, port, ssl=context, server_hostname=host)
    except TimeoutError:
        raise OSError(f"no TLS within {timeout_s:g} s") from None
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return certificate_facts(x509.load_der_x509_certificate(shown))


def certificate_facts(certificate: x509.Certificate) -> CertificateFacts:
    """When it is good, and for whom."""
    names: list[str] = []
    with suppress(x509.ExtensionNotFound):
        kinds = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names += kinds.get_values_for_type(x509.DNSName)
        names += [str(each) for each in kinds.get_values_for_type(x509.IPAddress)]
    return CertificateFacts(
        not_before=certificate.not_valid_before_utc.timestamp(),
        not_after=certificate.not_valid_after_utc.timestamp(),
        names=tuple(names),
    )


def look_at_file(path: Path) -> CertificateFacts:
    """The first certificate of a PEM file. Raises nothing: why it cannot be read is its `error`."""
    try:
        return certificate_facts(x509.load_pem_x509_certificates(path.read_bytes())[0])
    except OSError as exc:
        return CertificateFacts(error=exc.strerror or "cannot be read")
    except ValueError:
        return CertificateFacts(error="no certificate in PEM is in it")
