"""A cluster with an authoriser, and a gateway before it with a listener for each way to say who one is.

The gateway reaches the cluster by SASL_SSL. The broker ends a login after `LIFETIME_MS`: whoever logs in has to do so
again, on each connection.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Producer

from gateway.devcluster import DevCluster, claim_ports, release_ports
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.secured_cluster import SECURED, Acls, by_tls, login
from tests.support.brokers.tls_terminator import terminator_before
from tests.support.gateways.gateway import GatewayProcess
from tests.support.identities.certificates import Certificates
from tests.support.identities.issuer import AUDIENCE, ISSUER, Issuer

LIFETIME_MS = 8_000
QUIET = {"reconnect.backoff.max.ms": 500, "log_level": 0}


class Scene(NamedTuple):
    """The first listener takes certificates, the one at `oauth` bearer tokens, the one at `relay` passes logins on."""

    target: DevCluster
    acls: Acls
    gateway: GatewayProcess
    certificates: Certificates

    oauth: str
    relay: str
    issuer: Issuer

    def logged(self) -> str:
        return self.gateway.log.read_text(encoding="utf-8")


@contextmanager
def identity_scene(folder: Path) -> Iterator[Scene]:
    """All of it, until the block ends."""
    properties = {**SECURED, "connections.max.reauth.ms": str(LIFETIME_MS)}
    certificates = Certificates(folder / "pki")
    with (
        running_cluster("identity", "4.3.1", folder, properties=properties) as target,
        terminator_before(target).running() as terminator,
    ):
        terminator.show(certificates.server("broker"))
        acls = Acls(login("admin", target.bootstrap))
        acls.allow_a_gateway("gateway", "alice")
        certificate, key = certificates.server("server")
        tls = {
            "certificate": str(certificate),
            "key": str(key),
            "client_ca": str(certificates.ca),
            "client_auth": "required",
            "principal_mapping_rules": "RULE:^CN=([a-z]+),.*$/$1/",
        }
        issuer = Issuer()
        keys = folder / "keys.json"
        keys.write_text(issuer.jwks(), encoding="ascii")
        ports = claim_ports(4, consecutive=True)
        bearers = {
            "bootstrap_port": ports[0],
            "base_port": ports[1],
            "identity": "token",
            "tls": {"certificate": str(certificate), "key": str(key)},
            "oauth": {"jwks_url": keys.as_uri(), "issuer": ISSUER, "audience": AUDIENCE},
        }
        gateway = GatewayProcess(
            folder,
            target.bootstrap,
            target=by_tls(target, "gateway", certificates.ca),
            links={"files": str(certificates.folder)},
            listener={"tls": tls, "identity": "token"},
            listeners={"bearers": bearers, "relay": {"bootstrap_port": ports[2], "base_port": ports[3]}},
        )
        os.environ["LOCKGATE_LINK_OWN_PASSWORD"] = "gateway"  # for its links
        try:
            gateway.start()
            yield Scene(target, acls, gateway, certificates, f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[2]}", issuer)
        finally:
            gateway.close()
            release_ports(ports)


def produce(settings: dict[str, Any], name: str, topic: str, timeout_s: float) -> list[KafkaError | None]:
    """A record. Returns the delivery's error, nothing when it was never decided."""
    errors: list[KafkaError | None] = []
    producer = Producer({**settings, "message.timeout.ms": int(timeout_s * 1000), **QUIET})
    producer.produce(topic, value=name.encode(), partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(timeout_s + 10)
    return errors
