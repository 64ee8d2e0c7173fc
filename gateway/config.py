"""The settings of `lockgate serve`: one YAML file, checked whole before anything starts.

`load` reads it. `${VAR}` in any value is replaced from the environment (`$${` stands for a literal `${`); an
unset variable is an error, never an empty string. Nothing else is taken from the environment.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gateway.kafka.connection.config import ClusterConfig
from gateway.proxy.rules.principal_mapping import PrincipalMapping

_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - a comparison
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain")


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine only. Another name than localhost is not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in _LOOPBACK_NAMES


Port = Annotated[int, Field(ge=1, le=65_535)]


class ConfigError(ValueError):
    """The file cannot be used. One line: `FILE: key: what is wrong`."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limits(_Section):
    """How much clients may take of the gateway: see `gateway/proxy/rules/limits.py` and docs/security.md.

    Sizes in bytes, times in seconds. `connections_per_second`: new ones of one address.
    """

    connections: Annotated[int, Field(ge=1)] = 20_000
    connections_per_address: Annotated[int, Field(ge=1)] = 5_000
    connections_per_second: Annotated[int, Field(ge=1)] = 1_000
    login_request_bytes: Annotated[int, Field(ge=1_024, le=2**31 - 1)] = 524_288
    login_timeout_s: Annotated[float, Field(gt=0, le=3_600)] = 30.0
    request_timeout_s: Annotated[float, Field(gt=0, le=3_600)] = 60.0
    unread_output_bytes: Annotated[int, Field(ge=65_536)] = 8_388_608
    elements_per_request: Annotated[int, Field(ge=1_000)] = 20_000
    groups_per_request: Annotated[int, Field(ge=1)] = 1_000
    waiters_per_principal: Annotated[int, Field(ge=1)] = 10_000
    held_request_bytes: Annotated[int, Field(ge=1_048_576)] = 536_870_912


class ServerTls(_Section):
    """TLS of what others connect to: PEM files. `key_password`: of an encrypted key.

    `client_ca`: who signs client certificates. `client_auth` as Kafka's ssl.client.auth: `requested` takes a client
    with a certificate or without, `required` refuses connections without a certificate.
    """

    certificate: Path
    key: Path
    key_password: SecretStr = SecretStr("")
    client_ca: Path | None = None
    client_auth: Literal["none", "requested", "required"] = "none"
    min_version: Literal["TLSv1.2", "TLSv1.3"] = "TLSv1.2"

    @model_validator(mode="after")
    def _has_ca(self) -> ServerTls:
        if (self.client_auth != "none") != (self.client_ca is not None):
            raise ValueError("client_ca and client_auth (requested or required) belong together")
        return self


class ListenerTls(ServerTls):
    """`principal_mapping_rules`: Kafka's ssl.principal.mapping.rules: the name of a certificate's owner."""

    principal_mapping_rules: str = "DEFAULT"

    @field_validator("principal_mapping_rules")
    @classmethod
    def _rules_are_readable(cls, rules: str) -> str:
        PrincipalMapping(rules)
        return rules


Protocol = Literal["", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


class Endpoint(_Section):
    """Where clients connect: a port for bootstrap, and one for each broker. `ports`: explicit map node id -> port,
    instead of `base_port` and following. `protocol`: Kafka's; '': what `tls` and the target make of it."""

    host: str = "127.0.0.1"
    advertised_host: str = ""
    bootstrap_port: Port
    base_port: Port
    ports: dict[int, Port] = {}
    protocol: Protocol = ""
    tls: ListenerTls | None = None

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


class ApiPrincipal(_Section):
    """Somebody who may ask, proved by the token in `token_file` or by a client certificate with the subject
    `certificate` (as Kafka writes it: CN=alice,OU=payments)."""

    name: Annotated[str, Field(min_length=1)]
    role: Literal["viewer", "operator", "admin"]
    token_file: Path | None = None
    certificate: str = ""

    @model_validator(mode="after")
    def _is_proved(self) -> ApiPrincipal:
        if (self.token_file is None) == (not self.certificate):
            raise ValueError(f"'{self.name}' needs a token_file or a certificate, and not both")
        return self


class Api(_Section):
    """Where REST and the metrics are served, and to whom. See docs/security.md.

    `socket`: path of a Unix socket, in place of `host` and `port`; only its owner can open it. `token_file`: of the
    admin's token, made at the first start; '': where the `lockgate` command looks, too. `allowed_hosts`: names by
    which clients call this address, besides the address itself. `public_metrics`: /metrics without a token.
    `max_body_bytes`: of a request, 1 KiB to 64 MiB. `request_timeout_s`: for a request to arrive whole, and
    for an answer to be taken, up to 10 min.
    `max_connections`: at a time. `audit_file`: where the audit trail is kept; '': standard output.
    """

    host: str = "127.0.0.1"
    port: Port = 8642
    socket: str = ""
    token_file: str = ""
    tls: ServerTls | None = None
    principals: tuple[ApiPrincipal, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    public_metrics: bool = False
    max_body_bytes: Annotated[int, Field(ge=1_024, le=67_108_864)] = 4_194_304
    request_timeout_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    max_connections: Annotated[int, Field(ge=1)] = 256
    audit_file: str = ""

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts_are_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not name or set(name) & set("/@ *[]") or name.count(":") == 1:
                raise ValueError(f"{name!r} is not a host's name alone: without scheme, port and wildcards")
        return names

    @model_validator(mode="after")
    def _closed_by_default(self) -> Api:
        """Raises ValueError for what would let strangers in."""
        names = [principal.name for principal in self.principals]
        if len(set(names)) < len(names):
            raise ValueError("principals: two have the same name")
        by_certificate = any(principal.certificate for principal in self.principals)
        if by_certificate and (self.tls is None or self.tls.client_ca is None):
            raise ValueError("principals: certificates are only seen with tls.client_ca and tls.client_auth")
        if self.socket and self.tls is not None:
            raise ValueError("socket: has no TLS; leave api.tls out")
        if self.socket or is_loopback(self.host):
            return self
        if self.tls is None or not self.principals:
            raise ValueError(
                f"host {self.host} can be reached from other machines: set tls, and principals with token files or "
                "client certificates; or listen on 127.0.0.1, or on a Unix socket (api.socket)"
            )
        return self


class Links(_Section):
    """What links may be made to do. `files`: the folder that their ssl.*.location are in, and the files of
    `${file:PATH:KEY}` and `${dir:PATH:NAME}`; '': none may be named. `variables`: those of `${env:NAME}`, with `*`.

    `key_file`: of the key that secrets are encrypted with, the same at every gateway; '': only references are taken.
    `allow_unverified_tls`: links may switch the check of certificates or host names off.
    """

    files: str = ""
    variables: tuple[str, ...] = ("LOCKGATE_LINK_*",)
    key_file: str = ""
    allow_unverified_tls: bool = False


class Groups(_Section):
    """`groupless`: may a client without any group read a mirrored topic before its promote.

    `quiet_period_s`: seconds a source group must be without members before it is promoted by itself.
    """

    groupless: Literal["allow", "deny"] = "allow"
    quiet_period_s: Annotated[float, Field(ge=0)] = 1.0


class Promote(_Section):
    """Limits of a topic promote. `lag_threshold` in records; `grace_ms` and `unknown_grace_ms`: how long the
    source's end must not move under the write pause, without and with requests of unknown outcome.
    """

    lag_threshold: Annotated[int, Field(ge=0)] = 1_000
    pause_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    grace_ms: Annotated[int, Field(ge=0)] = 30
    unknown_grace_ms: Annotated[int, Field(ge=0)] = 2_000


class FleetTls(_Section):
    """PEM files: this gateway's certificate, good for servers and for clients, its key, and the CA of all gateways."""

    certificate: Path
    key: Path
    key_password: SecretStr = SecretStr("")
    ca: Path


class Fleet(_Section):
    """The gateways of one target are a fleet, without any setting. See docs/fleet.md.

    `name`: of this gateway, the same over restarts, no two alike; empty: from the listener's address. `lease_s`: for
    how long it may write to sources without having been heard of, 5 s to a day; who promotes waits that long for one
    that was lost. `peer_host`, `peer_port`: where the other gateways reach it; by default the listener's address, and
    any free port. `tls`: certificates of the channel between gateways; by default they make them themselves.
    """

    name: str = ""
    lease_s: Annotated[float, Field(ge=5, le=86_400)] = 600.0
    peer_host: str = ""
    peer_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    tls: FleetTls | None = None


class Log(_Section):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


class Settings(BaseSettings):
    """All settings. `target` holds Kafka client properties under Kafka's own names.

    `listeners`: besides the first, by name. `role`: a `node` mirrors and may lead the fleet, a `sidecar` serves
    clients only.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    target: dict[str, str]
    role: Literal["node", "sidecar"] = "node"
    fleet: Fleet = Fleet()
    listener: Listener = Listener()
    limits: Limits = Limits()
    listeners: dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")], Endpoint] = {}
    api: Api = Api()
    links: Links = Links()
    groups: Groups = Groups()
    promote: Promote = Promote()
    log: Log = Log()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only the file: a stray LOG or API in the environment must not change a gateway."""
        return (init_settings,)

    @field_validator("target", mode="before")
    @classmethod
    def _target_as_text(cls, target: Any) -> Any:
        return {name: _as_property(value) for name, value in target.items()} if isinstance(target, Mapping) else target

    @field_validator("target")
    @classmethod
    def _target_is_usable(cls, target: dict[str, str]) -> dict[str, str]:
        if ClusterConfig.from_client_properties(target).is_certificate_only:
            raise ValueError(
                "ssl.certificate.location: with security.protocol SSL the target knows clients by their certificates, "
                "which the gateway cannot pass on: use SASL_SSL, so that each client logs in by itself"
            )
        return target

    @model_validator(mode="after")
    def _api_apart(self) -> Settings:
        if self.api.port in (self.listener.bootstrap_port, *self.listener.ports.values()):
            raise ValueError("api.port: is one of the listener's ports")
        return self

    @model_validator(mode="after")
    def _listeners_apart(self) -> Settings:
        fixed = [("api.port", self.api.host, self.api.port)] if not self.api.socket else []
        begun: list[tuple[str, str, int]] = []
        for where, each in self.endpoints().items():
            ports = {"bootstrap_port": each.bootstrap_port}
            ports |= {f"ports.{node}": port for node, port in each.ports.items()}
            for name, port in ports.items():
                _require_apart(f"{where}.{name}", each.host, port, fixed)
            if not each.ports:
                _require_apart(f"{where}.base_port", each.host, each.base_port, begun)
            if self.listener.ports and not each.ports:
                raise ValueError(f"{where}.ports: is needed, since listener.ports is set")
        return self

    @model_validator(mode="after")
    def _listeners_as_the_target(self) -> Settings:
        """Who logs in at the gateway logs in at the target: a listener cannot have SASL where the target has not."""
        there = self.target.get("security.protocol", "PLAINTEXT").upper()
        for where, each in self.endpoints().items():
            if each.protocol and each.protocol.startswith("SASL") != there.startswith("SASL"):
                raise ValueError(
                    f"{where}.protocol: {each.protocol}, but clients log in at the target, "
                    f"and its security.protocol is {there}"
                )
        return self

    def endpoints(self) -> dict[str, Endpoint]:
        """All listeners by the name of their section, the first one first."""
        return {"listener": self.listener, **{f"listeners.{name}": each for name, each in self.listeners.items()}}


def _require_apart(where: str, host: str, port: int, others: list[tuple[str, str, int]]) -> None:
    """Raises ValueError when one of the others has the port at this host; else it is one of them from now on."""
    for other, there, taken in others:
        if port == taken and (host == there or {host, there} & _EVERYWHERE):
            raise ValueError(f"{where}: {port} is {other}, too")
    others.append((where, host, port))


def load(path: Path) -> Settings:
    """Read, interpolate and validate the settings file.

    Raises:
        ConfigError: one line with the file, the key and what is wrong with it.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(exc).split())}") from exc
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: the file must hold a mapping with at least `target`")
    try:
        return Settings(**_interpolated({str(key): value for key, value in document.items()}, "", os.environ))
    except ValidationError as exc:
        raise ConfigError(f"{path}: {_one_line(exc)}") from exc
    except ValueError as exc:
        raise ConfigError(f"{path}: {exc}") from exc


_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}")


def _interpolated(value: Any, where: str, environment: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _interpolated(each, f"{where}.{key}".lstrip("."), environment) for key, each in value.items()}
    if isinstance(value, list):
        return [_interpolated(each, f"{where}[{index}]", environment) for index, each in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "${"
        if name not in environment:
            raise ValueError(f"{where}: ${{{name}}} is not set in the environment")
        return environment[name]

    return _VARIABLE.sub(replacement, value)


def _as_property(value: Any) -> Any:
    """A YAML scalar as a Kafka property's text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _one_line(error: ValidationError) -> str:
    """The first error, and how many more there are."""
    errors = error.errors(include_url=False, include_context=False)
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"])
    if where == "target" and first["type"] == "value_error":  # the message begins with the property's name
        return f"target.{first['msg'].removeprefix('Value error, ')}"
    text = {"extra_forbidden": "unknown key", "missing": "is required"}.get(first["type"], first["msg"])
    text = " ".join(text.removeprefix("Value error, ").split())
    shown = first.get("input")
    if first["type"] not in ("extra_forbidden", "missing", "value_error") and isinstance(shown, str | int | float):
        text = f"{text} (it is {shown!r})"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{where}: {text}{more}" if where else f"{text}{more}"
