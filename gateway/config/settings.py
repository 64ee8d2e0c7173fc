"""All settings of `lockgate serve`, and what must fit between their sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gateway.config.api import Api, Management
from gateway.config.listeners import Endpoint, Limits, Listener, Tokens
from gateway.config.section import Section
from gateway.config.tls import FleetTls
from gateway.kafka.connection.config import ClusterConfig
from gateway.transport.sockets import is_loopback

_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - a comparison


class Links(Section):
    """What links may be made to do. `files`: the folder that their ssl.*.location are in, and the files of
    `${file:PATH:KEY}` and `${dir:PATH:NAME}`; '': none may be named; what is secret is in its folder LINK. `variables`:
    those of `${env:NAME}`, with `*`, and `{LINK}` for the link's name in capitals. `hosts`: whom links may ask
    (brokers, schema registries, endpoints of tokens), HOST or HOST:PORT, with `*`; none: anybody.

    `key_file`: of the key that secrets are encrypted with, the same at every gateway; '': only references are taken.
    `allow_unverified_tls`: links may switch the check of certificates or host names off, and log in without TLS where
    the password can be read (PLAIN, OAUTHBEARER), elsewhere than on this machine.
    """

    files: str = ""
    variables: tuple[str, ...] = ("LOCKGATE_LINK_{LINK}_*",)
    hosts: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    key_file: str = ""
    allow_unverified_tls: bool = False


class Groups(Section):
    """`groupless`: may a client without any group read a mirrored topic before its promote.

    `quiet_period_s`: seconds a source group must be without members before it is promoted by itself.
    """

    groupless: Literal["allow", "deny"] = "allow"
    quiet_period_s: Annotated[float, Field(ge=0)] = 1.0


class Promote(Section):
    """Limits of a topic promote. `lag_threshold` in records; `grace_ms` and `unknown_grace_ms`: how long the
    source's end must not move under the write pause, without and with requests of unknown outcome. The second one is
    also how long what a gateway had in flight may land once it has gone, for a failover too.
    """

    lag_threshold: Annotated[int, Field(ge=0)] = 1_000
    pause_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    grace_ms: Annotated[int, Field(ge=0)] = 30
    unknown_grace_ms: Annotated[int, Field(ge=0)] = 2_000


class Fleet(Section):
    """The gateways of one target are a fleet, without any setting. See docs/operate/fleet.md.

    `name`: of this gateway, the same over restarts, no two alike; empty: from the listener's address. `lease_s`: for
    how long it may write to sources without having been heard of, 5 s to a day; who promotes waits that long for one
    that was lost. `peer_host`, `peer_port`: where the other gateways reach it; by default the listener's address, and
    any free port; with `workers` each has one, from `peer_port` on. `tls`: certificates of the channel between
    gateways; by default they make them themselves.
    """

    name: Annotated[str, Field(pattern=r"^[^#]*$")] = ""
    lease_s: Annotated[float, Field(ge=5, le=86_400)] = 600.0
    peer_host: str = ""
    peer_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    tls: FleetTls | None = None


class Metrics(Section):
    """What is asked of the clusters for /metrics alone: consumer lag of mirror groups on both sides.

    `group_lag_interval_s`: from one round to the next; 0: never. `group_lag_groups`: looked at in one round, each in
    its turn. A round takes two requests per group, and two per topic that is read and not mirrored now.
    """

    group_lag_interval_s: Annotated[float, Field(ge=0, le=86_400)] = 30.0
    group_lag_groups: Annotated[int, Field(ge=1, le=100_000)] = 200


class Log(Section):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


class Settings(BaseSettings):
    """All settings. `target` holds Kafka client properties under Kafka's own names.

    `listeners`: besides the first, by name. `role`: a `node` mirrors and may lead the fleet, a `sidecar` serves
    clients only. `workers`: processes of this gateway, `auto`: one for each core; see docs/operate/fleet.md.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    target: dict[str, str]
    role: Literal["node", "sidecar"] = "node"
    workers: Annotated[int, Field(ge=1, le=64)] | Literal["auto"] = 1
    fleet: Fleet = Fleet()
    listener: Listener = Listener()
    limits: Limits = Limits()
    tokens: Tokens = Tokens()
    listeners: dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")], Endpoint] = {}
    api: Api = Api()
    management: Management = Management()
    links: Links = Links()
    groups: Groups = Groups()
    promote: Promote = Promote()
    metrics: Metrics = Metrics()
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
        if self.management.port:
            _require_apart("management.port", self.management.host, self.management.port, fixed)
        begun: list[tuple[str, str, int]] = []
        for where, each in self.endpoints().items():
            ports = {"bootstrap_port": each.bootstrap_port}
            ports |= {f"ports.{node}": port for node, port in each.ports.items()}
            for name, port in ports.items():
                _require_apart(f"{where}.{name}", each.host, port, fixed)
            if not each.ports and each.has_ports:
                _require_apart(f"{where}.base_port", each.host, each.base_port, begun)
            if self.listener.ports and not each.ports and each.has_ports:
                raise ValueError(f"{where}.ports: is needed, since listener.ports is set")
        return self

    @model_validator(mode="after")
    def _listeners_as_the_target(self) -> Settings:
        """Who logs in at the gateway logs in at the target: a listener cannot have SASL where the target has not."""
        there = self.target.get("security.protocol", "PLAINTEXT").upper()
        for where, each in self.endpoints().items():
            if each.identity == "token":
                if not there.startswith("SASL"):
                    raise ValueError(
                        f"{where}.identity: token, but delegation tokens are for logins, "
                        f"and the target's security.protocol is {there}: it takes SASL_SSL"
                    )
                continue
            if each.protocol and each.protocol.startswith("SASL") != there.startswith("SASL"):
                raise ValueError(
                    f"{where}.protocol: {each.protocol}, but clients log in at the target, "
                    f"and its security.protocol is {there}"
                )
        return self

    @model_validator(mode="after")
    def _logins_are_not_read_by_others(self) -> Settings:
        """Clients that logged in at the broker by TLS may be sent here by a mistake in a port, and nobody would see."""
        for where, each in self._readable():
            if not each.protocol:
                raise ValueError(
                    f"{where}: logins at {each.host} could be read on the wire: give it tls; "
                    "protocol: SASL_PLAINTEXT says that they may be"
                )
        return self

    def in_the_clear(self) -> list[str]:
        """Listeners, by section, at which other machines log in without TLS, as their `protocol` says."""
        return [where for where, _ in self._readable()]

    def _readable(self) -> Iterator[tuple[str, Endpoint]]:
        logs_in = self.target.get("security.protocol", "").upper().startswith("SASL")
        for where, each in self.endpoints().items():
            if logs_in and each.tls is None and not is_loopback(each.host):
                yield where, each

    def endpoints(self) -> dict[str, Endpoint]:
        """All listeners by the name of their section, the first one first."""
        return {"listener": self.listener, **{f"listeners.{name}": each for name, each in self.listeners.items()}}


def _require_apart(where: str, host: str, port: int, others: list[tuple[str, str, int]]) -> None:
    """Raises ValueError when one of the others has the port at this host; else it is one of them from now on."""
    for other, there, taken in others:
        if port == taken and (host == there or {host, there} & _EVERYWHERE):
            raise ValueError(f"{where}: {port} is {other}, too")
    others.append((where, host, port))


def _as_property(value: Any) -> Any:
    """A YAML scalar as a Kafka property's text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
