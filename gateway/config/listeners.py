"""Where clients connect, who they are, and how much they may take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from gateway.config.section import Port, Section
from gateway.config.tls import ListenerTls
from gateway.proxy.rules.proxy_protocol import Proxies
from gateway.proxy.rules.server_names import ServerNames

Protocol = Literal["", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


class Limits(Section):
    """How much clients may take of the gateway: see `gateway/proxy/rules/limits.py` and docs/operate/listeners.md.

    Sizes in bytes, times in seconds. `connections_per_second`: new ones of one address; `handshakes_per_second`: of
    TLS, likewise. `forwarded_bytes_per_second`:
    of one principal's writes to sources, as a broker's producer_byte_rate; 0: any number. `rights_kept_s`: 1 s to 5
    min; so much later than at a broker counts what an administrator revokes.
    """

    connections: Annotated[int, Field(ge=1)] = 20_000
    connections_per_address: Annotated[int, Field(ge=1)] = 5_000
    connections_per_second: Annotated[int, Field(ge=1)] = 1_000
    handshakes_per_second: Annotated[int, Field(ge=1)] = 50
    login_request_bytes: Annotated[int, Field(ge=1_024, le=2**31 - 1)] = 65_536
    login_timeout_s: Annotated[float, Field(gt=0, le=3_600)] = 30.0
    request_timeout_s: Annotated[float, Field(gt=0, le=3_600)] = 60.0
    unread_output_bytes: Annotated[int, Field(ge=65_536)] = 8_388_608
    elements_per_request: Annotated[int, Field(ge=1_000)] = 10_000
    groups_per_request: Annotated[int, Field(ge=1)] = 1_000
    waiters_per_principal: Annotated[int, Field(ge=1)] = 10_000
    rights_kept_s: Annotated[float, Field(ge=1, le=300)] = 30.0
    held_request_bytes: Annotated[int, Field(ge=1_048_576)] = 536_870_912
    held_answer_bytes: Annotated[int, Field(ge=1_048_576)] = 268_435_456
    forwarded_bytes_per_second: Annotated[int, Field(ge=0)] = 0


class OAuth(Section):
    """How tokens of OAUTHBEARER are checked. `jwks_url`: the keys that they are signed with, https://… or file:///….

    `issuer`, `audience`: what a token's `iss` has to be, and its `aud` to have. `principal_claim`: who its bearer is.
    `clock_skew_s`: by which clocks may differ, up to 10 min. `ca`: PEM, for https; default: the system's.
    """

    jwks_url: Annotated[str, Field(pattern=r"^(https://[^\s/]+/.*|file:///.+)$")]
    issuer: Annotated[str, Field(min_length=1)]
    audience: Annotated[str, Field(min_length=1)]
    principal_claim: Annotated[str, Field(min_length=1)] = "sub"
    clock_skew_s: Annotated[float, Field(ge=0, le=600)] = 30.0
    ca: Path | None = None


class Endpoint(Section):
    """Where clients connect: a port for bootstrap, and one for each broker, or a name. `addressing`: brokers are told
    apart by `port`; by the server name of TLS at the bootstrap port (`sni`); `both`: who comes by a name is told
    names. `advertised_host_pattern`: those names, with `$(nodeId)`. `advertised_port`, `advertised_base_port`: what
    clients are told in place of `bootstrap_port` and `base_port`; 0: these.

    `ports`: explicit map node id -> port, instead of `base_port` and following. `protocol`: Kafka's; '': what `tls` and
    the target make of it. `proxy_protocol_from`: addresses and networks of load balancers that put a PROXY header (v1
    or v2) before each connection; with any, only they may connect.

    `identity`: `relay` has clients log in at the target themselves; with `token` the gateway finds out who they are, by
    certificates or `oauth`, and logs in at the target as that principal, with a delegation token."""

    host: str = "127.0.0.1"
    advertised_host: str = ""
    advertised_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    advertised_base_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    addressing: Literal["port", "sni", "both"] = "port"
    advertised_host_pattern: str = ""
    bootstrap_port: Port
    base_port: Port
    ports: dict[int, Port] = Field(default_factory=dict)
    protocol: Protocol = ""
    proxy_protocol_from: tuple[str, ...] = ()
    tls: ListenerTls | None = None
    identity: Literal["relay", "token"] = "relay"
    oauth: OAuth | None = None

    @model_validator(mode="after")
    def _somebody_is_known(self) -> Endpoint:
        """Raises ValueError where clients could come as nobody, or with a login that nothing protects."""
        if self.identity == "relay":
            if self.oauth is not None:
                raise ValueError("oauth: with identity relay the target checks tokens itself; it takes identity: token")
            return self
        if self.tls is None or (self.oauth is None and self.tls.client_auth != "required"):
            raise ValueError("identity token: takes tls, with client_auth: required or with oauth")
        wanted = "SSL" if self.oauth is None else "SASL_SSL"
        if self.protocol not in ("", wanted):
            raise ValueError(f"protocol {self.protocol}: clients with {self._proof} come by {wanted}")
        return self

    @property
    def _proof(self) -> str:
        return "certificates" if self.oauth is None else "OAUTHBEARER"

    @field_validator("proxy_protocol_from")
    @classmethod
    def _proxies_are_networks(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        Proxies(networks)
        return networks

    @model_validator(mode="after")
    def _tls_as_the_protocol_says(self) -> Endpoint:
        if self.protocol and self.protocol.endswith("SSL") != (self.tls is not None):
            raise ValueError(f"protocol {self.protocol} {'needs' if self.tls is None else 'has no'} tls")
        return self

    @field_validator("ports")
    @classmethod
    def _ports_differ(cls, ports: dict[int, int]) -> dict[int, int]:
        if len(set(ports.values())) < len(ports):
            raise ValueError("two brokers cannot have the same port")
        return ports

    @model_validator(mode="before")
    @classmethod
    def _names_need_no_ports(cls, given: Any) -> Any:
        """One that has no ports of brokers need not say from which one on they would be."""
        if isinstance(given, dict) and given.get("addressing") == "sni" and cls.model_fields["base_port"].is_required():
            return {"base_port": given.get("bootstrap_port"), **given}
        return given

    @model_validator(mode="after")
    def _can_be_addressed(self) -> Endpoint:
        """Raises ValueError for names that no client could come by, and for ports that nobody would listen on."""
        if self.addressing == "port":
            if self.advertised_host_pattern:
                raise ValueError("advertised_host_pattern: needs addressing: sni, or both")
        elif self.tls is None:
            raise ValueError(f"addressing {self.addressing}: needs tls, since the name is in its handshake")
        elif self.addressing == "sni" and self.ports:
            raise ValueError("ports: there are none with addressing: sni; leave it out, or say addressing: both")
        else:
            ServerNames(self.advertised_host, self.advertised_host_pattern)
        if self.advertised_base_port and (self.ports or self.addressing == "sni"):
            raise ValueError("advertised_base_port: takes base_port, and neither ports nor addressing: sni")
        return self

    @property
    def names(self) -> ServerNames | None:
        """By which clients ask for brokers."""
        if self.addressing == "port":
            return None
        return ServerNames(self.advertised_host, self.advertised_host_pattern)

    @property
    def has_ports(self) -> bool:
        """Brokers have ports of their own."""
        return self.addressing != "sni"

    @property
    def told_behind(self) -> int:
        """By how much ports of brokers that clients are told are above those that are listened on."""
        return self.advertised_base_port - self.base_port if self.advertised_base_port else 0

    @property
    def advertised_bootstrap(self) -> tuple[str, int]:
        """Where clients are told to begin."""
        return self.advertised, self.advertised_port or self.bootstrap_port

    @model_validator(mode="after")
    def _bootstrap_apart(self) -> Endpoint:
        if self.bootstrap_port in self.ports.values():
            raise ValueError("bootstrap_port and ports must not share a port")
        return self

    @property
    def advertised(self) -> str:
        """The host that clients are told: `advertised_host`, or `host` when that is not set."""
        return self.advertised_host or self.host


class Listener(Endpoint):
    """The first listener. `max_request_bytes`: 1 KiB to 2 GiB - 1. `idle_timeout_s`: seconds after which a silent
    connection is closed. Both are for all listeners."""

    bootstrap_port: Port = 9292
    base_port: Port = 9293
    max_request_bytes: Annotated[int, Field(ge=1_024, le=2**31 - 1)] = 104_857_600
    idle_timeout_s: Annotated[float, Field(gt=0)] = 600.0


class Tokens(Section):
    """Delegation tokens of `identity: token`. `lifetime_s`: of each, 1 min to 7 days; for so long a right to make them
    that was taken away may count. `principals`: at a time."""

    lifetime_s: Annotated[float, Field(ge=60, le=604_800)] = 3_600.0
    principals: Annotated[int, Field(ge=1)] = 10_000
