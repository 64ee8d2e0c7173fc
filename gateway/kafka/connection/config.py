"""How to reach a cluster: Kafka client properties, checked and turned into values.

The names are Kafka's own, as the Java client and librdkafka write them; where the two differ both are taken.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.close_names import did_you_mean
from gateway.kafka.connection.properties import PROPERTIES

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
TOKEN_MECHANISM = "SCRAM-SHA-256"  # noqa: S105 - a name
"""Of delegation tokens: brokers take them by any SCRAM mechanism that the listener has enabled (KIP-48)."""
_BACKOFFS = {"retry_backoff_s": (0.1, 1.0), "reconnect_backoff_s": (0.05, 2.0)}

Resolve = Callable[[str, str], str]
MayUse = Callable[[], None]
MayReach = Callable[[str, int], None]
TokenLogin = Callable[[], Awaitable[tuple[str, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """PEM files and checks for TLS. An empty path means: the system's CAs, or no client certificate."""

    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)
    verify_certificate: bool = True
    verify_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """A client context.

        Raises:
            ValueError: a file that cannot be read or is not PEM; names the property.
        """
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
        context.check_hostname = self.verify_hostname and self.verify_certificate
        if not self.verify_certificate:
            context.verify_mode = ssl.CERT_NONE
        if self.ca:
            _load("ssl.ca.location", self.ca, lambda: context.load_verify_locations(self.ca))
        if self.certificate:
            key, password = self.key or None, self.key_password
            # A password callback, so that OpenSSL never asks on the terminal.
            _load(
                "ssl.certificate.location",
                self.certificate,
                lambda: context.load_cert_chain(self.certificate, key, lambda: password),
            )
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """Where tokens of OAUTHBEARER come from: a file, or an endpoint that gives them to a client with a secret.

    `ca`: PEM, who signs the endpoint's certificate; empty: the system's.
    """

    url: str = ""
    client: str = ""
    secret: str = field(default="", repr=False)
    scope: str = ""
    ca: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """One cluster's client configuration. Times are in seconds.

    Attributes:
        bootstrap: (host, port) pairs to begin with.
        request_timeout_s: a broker that owes an answer for longer loses its connection.
        connect_timeout_s: for DNS, TCP, TLS, ApiVersions and SASL of one connection together.
        api_timeout_s: default deadline of the calls of `Cluster` and the helpers, with all their retries.
        metadata_max_age_s: the view is refreshed at least this often.
        retry_backoff_s, reconnect_backoff_s: (first, longest) waits.
        max_response_bytes: a larger response frame closes the connection.
        resolve: (property, its value) -> the secret, where values are references to secrets; asked at each login.
            Raises ValueError, naming the property.
        may_use: asked before PEM files are read, and before each token is; raises ValueError, naming the property that
            is not allowed here. (What is stored of a link has been looked at by whoever stored it, or by nobody.)
        may_reach: likewise before each connection, with the broker's host and port: brokers name one another.
        token: a delegation token's id and password, asked at each login, in place of mechanism, name and password.
            Raises AuthenticationFailed or ClusterUnavailable.
        properties: the properties this was made of, for whoever hands them to another client library.
    """

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "lockgate"
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    sasl_username: str = ""
    sasl_password: str = field(default="", repr=False)
    tls: TlsConfig = TlsConfig()
    oauth: OAuthConfig = OAuthConfig()
    request_timeout_s: float = 30.0
    connect_timeout_s: float = 10.0
    api_timeout_s: float = 15.0
    metadata_max_age_s: float = 30.0
    retry_backoff_s: tuple[float, float] = _BACKOFFS["retry_backoff_s"]
    reconnect_backoff_s: tuple[float, float] = _BACKOFFS["reconnect_backoff_s"]
    max_response_bytes: int = 256 * 1024 * 1024
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    resolve: Resolve = field(default=lambda _, value: value, repr=False, compare=False)
    may_use: MayUse = field(default=lambda: None, repr=False, compare=False)
    may_reach: MayReach = field(default=lambda _host, _port: None, repr=False, compare=False)
    token: TokenLogin | None = field(default=None, repr=False, compare=False)

    @property
    def uses_tls(self) -> bool:
        """True for SSL and SASL_SSL."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """True for SASL_PLAINTEXT and SASL_SSL."""
        return self.security_protocol.startswith("SASL")

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context, None without TLS. Reads the PEM files; raises ValueError naming the property."""
        if not self.uses_tls:
            return None
        self.may_use()
        key_password = self.resolve("ssl.key.password", self.tls.key_password)
        return replace(self.tls, key_password=key_password).context()

    def oauth_secret(self) -> str:
        """As it is now. Raises ValueError naming the property."""
        return self.resolve("sasl.oauthbearer.client.secret", self.oauth.secret)

    def login(self) -> tuple[str, str]:
        """User name and password, as they are now. Raises ValueError naming the property."""
        return self.resolve("sasl.username", self.sasl_username), self.resolve("sasl.password", self.sasl_password)

    def ssl_context_for_others(self) -> ssl.SSLContext | None:
        """As `ssl_context`, without this configuration's own certificate: for connections on which others speak.

        A broker with `ssl.client.auth` would take whoever speaks on a connection for the certificate's owner.
        """
        if not self.uses_tls:
            return None
        self.may_use()
        return replace(self.tls, certificate="", key="", key_password="").context()

    @property
    def is_certificate_only(self) -> bool:
        """The certificate is all that tells the cluster who this is."""
        return self.security_protocol == "SSL" and bool(self.tls.certificate)

    @classmethod
    def from_client_properties(
        cls,
        properties: Mapping[str, str],
        resolve: Resolve | None = None,
        *,
        reads_files: bool = True,
        others: Iterable[str] = (),
    ) -> ClusterConfig:
        """Make a config of Kafka client properties.

        Args:
            resolve: see the attribute.
            others: what else may have been meant by a name that is unknown.
            reads_files: the PEM files are tried now; else what is wrong with them is told by each connection.

        Raises:
            ValueError: one line that names an unknown property, a bad value, or one that is missing.
        """
        values: dict[str, Any] = {}
        for name, raw in properties.items():
            known = PROPERTIES.get(name)
            if known is None:
                raise ValueError(f"{name}: unknown client property{did_you_mean(name, (*PROPERTIES, *others))}")
            try:
                values[known.field] = known.parse(str(raw))
            except ValueError as exc:
                raise ValueError(f"{name}: {exc}") from None
        config = _assemble(values, dict(properties))
        if resolve is not None:
            config = replace(config, resolve=resolve)
        if reads_files:
            config.ssl_context()
        return config


def _assemble(values: dict[str, Any], properties: Mapping[str, str]) -> ClusterConfig:
    if "bootstrap" not in values:
        raise ValueError("bootstrap.servers: missing")
    tls = {name[4:]: values.pop(name) for name in tuple(values) if name.startswith("tls_")}
    oauth = {name[6:]: values.pop(name) for name in tuple(values) if name.startswith("oauth_")}
    jaas = values.pop("jaas", None)
    if jaas is not None:
        values.setdefault("sasl_username", jaas[0])
        values.setdefault("sasl_password", jaas[1])
    for name in _BACKOFFS:
        first, longest = values.pop(f"{name}_min", None), values.pop(f"{name}_max", None)
        low = _BACKOFFS[name][0] if first is None else first
        values[name] = (low, max(low, _BACKOFFS[name][1] if longest is None else longest))
    config = ClusterConfig(tls=TlsConfig(**tls), oauth=OAuthConfig(**oauth), properties=properties, **values)
    _check(config)
    return config


def _check(config: ClusterConfig) -> None:
    if config.security_protocol not in PROTOCOLS:
        raise ValueError(f"security.protocol: {config.security_protocol!r} is not one of {', '.join(PROTOCOLS)}")
    if config.uses_sasl:
        if config.sasl_mechanism not in MECHANISMS:
            raise ValueError(f"sasl.mechanism: {config.sasl_mechanism!r} is not one of {', '.join(MECHANISMS)}")
        _check_credentials(config)
    elif config.sasl_mechanism:
        raise ValueError(f"sasl.mechanism: security.protocol is {config.security_protocol}, which has no SASL")
    if config.tls.key and not config.tls.certificate:
        raise ValueError("ssl.key.location: ssl.certificate.location is missing")


def _check_credentials(config: ClusterConfig) -> None:
    needed = {"sasl.username": config.sasl_username, "sasl.password": config.sasl_password}
    if config.sasl_mechanism == OAUTHBEARER:
        oauth = config.oauth
        needed = {"sasl.oauthbearer.token.endpoint.url": oauth.url}
        if not oauth.url.startswith("file:"):
            needed |= {"sasl.oauthbearer.client.id": oauth.client, "sasl.oauthbearer.client.secret": oauth.secret}
    for name, value in needed.items():
        if not value:
            raise ValueError(f"{name}: missing for security.protocol {config.security_protocol}")


def _load(name: str, path: str, load: Callable[[], object]) -> None:
    try:
        load()
    except ssl.SSLError as exc:
        raise ValueError(f"{name}: {path} is not a usable PEM file ({exc.reason or exc})") from None
    except OSError as exc:
        raise ValueError(f"{name}: cannot read {path}: {exc.strerror or exc}") from None
