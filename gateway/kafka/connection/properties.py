"""The client properties we know, and how each is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

_JAAS_CHARACTERS: Final = 4096


class Property(NamedTuple):
    """`field` of ClusterConfig (or a part of it, see `config._assemble`) that the property sets."""

    field: str
    parse: Callable[[str], Any]


def parse_endpoints(text: str) -> tuple[tuple[str, int], ...]:
    """`host:port,host:port` (IPv6 in brackets; PLAINTEXT:// and its like in front are dropped).

    Raises:
        ValueError: no entry, or one that is not host:port.
    """
    found = tuple(_endpoint(part.strip()) for part in text.split(",") if part.strip())
    if not found:
        raise ValueError("expected host:port,host:port")
    return found


def _endpoint(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition("://")[2].rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address needs brackets, [address]:port")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not host:port")
    return host, int(port)


def parse_jaas(text: str) -> tuple[str, str]:
    """User name and password of a Java client's `sasl.jaas.config` line for PLAIN or SCRAM.

    Raises:
        ValueError: another login module, or no user name and password in it.
    """
    if len(text) > _JAAS_CHARACTERS:
        raise ValueError(f"{_JAAS_CHARACTERS} characters at most")
    if not re.search(r"\b(PlainLoginModule|ScramLoginModule)\b", text):
        raise ValueError("only PlainLoginModule and ScramLoginModule are supported")
    options = dict(re.findall(r"\b(\w{1,64})\s*=\s*\"((?:[^\"\\]|\\.)*)\"", text))
    if "username" not in options or "password" not in options:
        raise ValueError('username="..." and password="..." expected')
    return _unescape(options["username"]), _unescape(options["password"])


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _seconds(text: str) -> float:
    milliseconds = int(text) if text.strip().isdigit() else 0
    if milliseconds <= 0:
        raise ValueError(f"{text!r} is not a positive number of milliseconds")
    return milliseconds / 1000


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is not true or false")
    return text.lower() == "true"


def _hostname_check(text: str) -> bool:
    if text.lower() not in ("", "none", "https"):
        raise ValueError(f"{text!r} is not https or none")
    return text.lower() == "https"


def _token_url(text: str) -> str:
    if not re.fullmatch(r"https://[^\s/]+/\S*|file:///\S+", text):
        raise ValueError(f"{text!r} is neither https://HOST/PATH nor file:///PATH")
    return text


PROPERTIES: Mapping[str, Property] = {
    "bootstrap.servers": Property("bootstrap", parse_endpoints),
    "client.id": Property("client_id", str),
    "security.protocol": Property("security_protocol", str.upper),
    "sasl.mechanism": Property("sasl_mechanism", str.upper),
    "sasl.mechanisms": Property("sasl_mechanism", str.upper),
    "sasl.username": Property("sasl_username", str),
    "sasl.password": Property("sasl_password", str),
    "sasl.jaas.config": Property("jaas", parse_jaas),
    "sasl.oauthbearer.token.endpoint.url": Property("oauth_url", _token_url),
    "sasl.oauthbearer.client.id": Property("oauth_client", str),
    "sasl.oauthbearer.client.secret": Property("oauth_secret", str),
    "sasl.oauthbearer.scope": Property("oauth_scope", str),
    "https.ca.location": Property("oauth_ca", str),
    "ssl.ca.location": Property("tls_ca", str),
    "ssl.certificate.location": Property("tls_certificate", str),
    "ssl.key.location": Property("tls_key", str),
    "ssl.key.password": Property("tls_key_password", str),
    "ssl.endpoint.identification.algorithm": Property("tls_verify_hostname", _hostname_check),
    "enable.ssl.certificate.verification": Property("tls_verify_certificate", _boolean),
    "request.timeout.ms": Property("request_timeout_s", _seconds),
    "socket.timeout.ms": Property("request_timeout_s", _seconds),
    "socket.connection.setup.timeout.ms": Property("connect_timeout_s", _seconds),
    "default.api.timeout.ms": Property("api_timeout_s", _seconds),
    "metadata.max.age.ms": Property("metadata_max_age_s", _seconds),
    "retry.backoff.ms": Property("retry_backoff_s_min", _seconds),
    "retry.backoff.max.ms": Property("retry_backoff_s_max", _seconds),
    "reconnect.backoff.ms": Property("reconnect_backoff_s_min", _seconds),
    "reconnect.backoff.max.ms": Property("reconnect_backoff_s_max", _seconds),
}
