"""The settings of `lockgate serve`: one YAML file, checked whole before anything starts.

`load` reads it. `${VAR}` in any value is replaced from the environment (`$${` stands for a literal `${`); an
unset variable is an error, never an empty string. Nothing else is taken from the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gateway.net.config import ClusterConfig

Port = Annotated[int, Field(ge=1, le=65_535)]


class ConfigError(ValueError):
    """The file cannot be used. One line: `FILE: key: what is wrong`."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Tls(_Section):
    """PEM files for the listener."""

    certificate: Path
    key: Path


class Listener(_Section):
    """Where clients connect. `ports`: explicit map node id -> port, instead of `base_port` and following.

    `max_request_bytes`: 1 KiB to 2 GiB - 1. `idle_timeout_s`: seconds after which a silent connection is closed.
    """

    host: str = "127.0.0.1"
    advertised_host: str = ""
    bootstrap_port: Port = 9292
    base_port: Port = 9293
    ports: dict[int, Port] = {}
    max_request_bytes: Annotated[int, Field(ge=1_024, le=2**31 - 1)] = 104_857_600
    idle_timeout_s: Annotated[float, Field(gt=0)] = 600.0
    tls: Tls | None = None

    @field_validator("ports")
    @classmethod
    def _ports_differ(cls, ports: dict[int, int]) -> dict[int, int]:
        if len(set(ports.values())) < len(ports):
            raise ValueError("two brokers cannot have the same port")
        return ports

    @model_validator(mode="after")
    def _bootstrap_apart(self) -> Listener:
        if self.bootstrap_port in self.ports.values():
            raise ValueError("bootstrap_port and ports must not share a port")
        return self

    @property
    def advertised(self) -> str:
        """The host that clients are told: `advertised_host`, or `host` when that is not set."""
        return self.advertised_host or self.host


class Api(_Section):
    """Where REST, the metrics and the web pages are served."""

    host: str = "127.0.0.1"
    port: Port = 8642


class Groups(_Section):
    """`groupless`: may a client without any group read a mirrored topic before its promote.

    `quiet_period_s`: seconds a source group must be without members before it is promoted by itself.
    """

    groupless: Literal["allow", "deny"] = "allow"
    quiet_period_s: Annotated[float, Field(ge=0)] = 1.0


class Promote(_Section):
    """Limits of a topic promote. `lag_threshold` in records; `grace_ms` and `unknown_grace_ms`: how long the
    source's end must not move under the fence, without and with requests of unknown outcome.
    """

    lag_threshold: Annotated[int, Field(ge=0)] = 1_000
    fence_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    grace_ms: Annotated[int, Field(ge=0)] = 30
    unknown_grace_ms: Annotated[int, Field(ge=0)] = 2_000
    on_bypass: Literal["abort"] = "abort"


class Fleet(_Section):
    """The gateways of one target are a fleet, without any setting. See docs/fleet.md.

    `name`: of this gateway, the same over restarts, no two alike; empty: from the listener's address. `lease_s`: for
    how long it may write to sources without having been heard of, 5 s to a day; who promotes waits that long for one
    that was lost. `peer_host`, `peer_port`: where the other gateways reach it; by default the listener's address, and
    any free port.
    """

    name: str = ""
    lease_s: Annotated[float, Field(ge=5, le=86_400)] = 600.0
    peer_host: str = ""
    peer_port: Annotated[int, Field(ge=0, le=65_535)] = 0


class Log(_Section):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


class Settings(BaseSettings):
    """All settings. `target` holds Kafka client properties under Kafka's own names.

    `role`: a `node` mirrors and may lead the fleet, a `sidecar` serves clients only.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    target: dict[str, str]
    role: Literal["node", "sidecar"] = "node"
    fleet: Fleet = Fleet()
    listener: Listener = Listener()
    api: Api = Api()
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
        ClusterConfig.from_client_properties(target)
        return target

    @model_validator(mode="after")
    def _api_apart(self) -> Settings:
        if self.api.port in (self.listener.bootstrap_port, *self.listener.ports.values()):
            raise ValueError("api.port: is one of the listener's ports")
        return self


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
