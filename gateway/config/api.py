"""Where REST is served, and to whom: closed by default. And what everybody may ask: the management listener."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from gateway.config.section import Port, Section
from gateway.config.tls import ServerTls
from gateway.transport.sockets import is_loopback


class ApiPrincipal(Section):
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


class HttpBounds(Section):
    """What of an HTTP server strangers may take. `request_timeout_s`: for a request to arrive whole, and for an answer
    to be taken, up to 10 min.
    `max_connections`: at a time. `connections_per_address`: of one IPv4 address or IPv6 /64; `connections_per_second`:
    new ones of it.
    """

    request_timeout_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    max_connections: Annotated[int, Field(ge=1)] = 256
    connections_per_address: Annotated[int, Field(ge=1)] = 64
    connections_per_second: Annotated[int, Field(ge=1)] = 100


class Management(HttpBounds):
    """Where /health, /ready and /metrics are, and nothing else, in plain HTTP and for everybody: for probes and
    Prometheus. `port`: 0: nowhere."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    request_timeout_s: Annotated[float, Field(gt=0, le=600)] = 5.0
    max_connections: Annotated[int, Field(ge=1)] = 64
    connections_per_address: Annotated[int, Field(ge=1)] = 16
    connections_per_second: Annotated[int, Field(ge=1)] = 20


class Api(HttpBounds):
    """Where REST and the metrics are served, and to whom. See docs/operate/api-access.md.

    `socket`: path of a Unix socket, in place of `host` and `port`; only its owner can open it. `token_file`: of the
    admin's token, made at the first start; '': where the `lockgate` command looks, too. `allowed_hosts`: names by
    which clients call this address, besides the address itself. `public_metrics`: /metrics without a token.
    `max_body_bytes`: of a request, 1 KiB to 64 MiB. `audit_file`: where the audit trail is kept; '': standard output.
    `audit_topic`: a topic of the target that has it as well.
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
    audit_file: str = ""
    audit_topic: Annotated[str, Field(pattern=r"^([a-zA-Z0-9_-][a-zA-Z0-9._-]{0,248})?$")] = ""

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
