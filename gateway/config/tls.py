"""Certificates: of what clients, operators and other gateways connect to."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import SecretStr, field_validator, model_validator

from gateway.config.section import Section
from gateway.kafka.rules.principal_mapping import PrincipalMapping


class ServerTls(Section):
    """TLS of what others connect to: PEM files. `key_password`: of an encrypted key.

    `client_ca`: who signs client certificates. `client_auth` as Kafka's ssl.client.auth: `requested` takes a client
    with a certificate or without, `required` refuses connections without a certificate. `crl`: PEM, the list of
    certificates that `client_ca` has revoked.
    """

    certificate: Path
    key: Path
    key_password: SecretStr = SecretStr("")
    client_ca: Path | None = None
    client_auth: Literal["none", "requested", "required"] = "none"
    crl: Path | None = None
    min_version: Literal["TLSv1.2", "TLSv1.3"] = "TLSv1.2"

    @model_validator(mode="after")
    def _has_ca(self) -> ServerTls:
        if (self.client_auth != "none") != (self.client_ca is not None):
            raise ValueError("client_ca and client_auth (requested or required) belong together")
        if self.crl is not None and self.client_ca is None:
            raise ValueError("crl: is of client certificates; it takes client_ca and client_auth")
        return self


class ListenerTls(ServerTls):
    """`principal_mapping_rules`: Kafka's ssl.principal.mapping.rules: the name of a certificate's owner."""

    principal_mapping_rules: str = "DEFAULT"

    @field_validator("principal_mapping_rules")
    @classmethod
    def _rules_are_readable(cls, rules: str) -> str:
        PrincipalMapping(rules)
        return rules


class FleetTls(Section):
    """PEM files: this gateway's certificate, good for servers and for clients, its key, the CA of all gateways, and the
    `crl` with those that it has revoked."""

    certificate: Path
    key: Path
    key_password: SecretStr = SecretStr("")
    ca: Path
    crl: Path | None = None
