"""TLS of what others connect to, from its settings: certificates, client certificates, versions."""

from __future__ import annotations

import ssl
from collections.abc import Collection

import structlog

from gateway.config.settings import Settings
from gateway.config.tls import ServerTls
from gateway.proxy.rules.server_names import covers
from gateway.transport.certificates import hosts_of, refuse_revoked
from gateway.transport.renewed import Renewed

_log = structlog.get_logger("lockgate")


def server_context(tls: ServerTls, where: str) -> ssl.SSLContext:
    """The context. `where`: of the settings. Raises ValueError that names the option."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if tls.min_version == "TLSv1.2" else ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(tls.certificate, tls.key, tls.key_password.get_secret_value)
    except (OSError, ssl.SSLError) as exc:
        raise ValueError(f"{where}: {tls.certificate} and {tls.key} cannot be used: {exc.strerror or exc}") from None
    if tls.client_ca is not None:
        try:
            context.load_verify_locations(tls.client_ca)
        except (OSError, ssl.SSLError) as exc:
            raise ValueError(f"{where}.client_ca: {tls.client_ca} cannot be used: {exc.strerror or exc}") from None
        if tls.crl is not None:
            try:
                refuse_revoked(context, tls.crl)
            except (OSError, ValueError) as exc:
                reason = getattr(exc, "strerror", None) or exc
                raise ValueError(f"{where}.crl: {tls.crl} cannot be used: {reason}") from None
        context.verify_mode = ssl.CERT_REQUIRED if tls.client_auth == "required" else ssl.CERT_OPTIONAL
    return context


def warn_of_names(settings: Settings, nodes: Collection[int]) -> None:
    """Names that clients are told, and that a listener's certificate is not good for: clients will refuse it."""
    for where, endpoint in settings.endpoints().items():
        if endpoint.names is not None and endpoint.tls is not None:
            certified = hosts_of(endpoint.tls.certificate.read_bytes())
            told = [endpoint.names.bootstrap, *map(endpoint.names.host_of, sorted(nodes))]
            if bad := [host for host in told if not any(covers(each, host) for each in certified)]:
                _log.warning(
                    "the certificate is not good for names that clients are told",
                    certificate=f"{where}.tls.certificate",
                    names=bad,
                    good_for=certified,
                )


def renewed_context(tls: ServerTls, where: str) -> Renewed[ssl.SSLContext]:
    """The context as the files are now. Raises as `server_context`."""
    files = [each for each in (tls.certificate, tls.key, tls.client_ca, tls.crl) if each is not None]
    return Renewed(where, lambda: server_context(tls, where), files)
