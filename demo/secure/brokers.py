"""Brokers with TLS everywhere, logins, an authorizer, and delegation tokens."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from demo.clusters import new_cluster
from demo.secure.certificates import MAPPING_RULE, Certificates
from demo.secure.principals import ADMIN, BROKER, GATEWAY
from demo.secure.settings import BROKERS
from gateway.devcluster import DevCluster, claim_ports

AUTHORIZER_LOG: Final = "kafka.authorizer.logger"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_LISTENERS: Final = 4  # of each broker: clients, brokers, controllers, the gateway


def secure_cluster(name: str, kafka: str, folder: Path, certificates: Certificates, password: str) -> DevCluster:
    """Clients and brokers come by certificate, the gateway by SASL_SSL to a listener of its own.

    `password`: the gateway's.
    """
    first = claim_ports(_LISTENERS * BROKERS, consecutive=True)[0]
    by_sasl = range(first + (_LISTENERS - 1) * BROKERS, first + _LISTENERS * BROKERS)
    pem = certificates.folder
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,INTERNAL:SSL,CONTROLLER:SSL,PROXIED:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pem / f"{BROKER}.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": MAPPING_RULE,
        "listener.name.proxied.ssl.client.auth": "none",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.proxied.plain.sasl.jaas.config": f'{_PLAIN} user_{GATEWAY}="{password}";',
        "listener.name.proxied.scram-sha-256.sasl.jaas.config": _SCRAM,  # by which delegation tokens log in
        "delegation.token.secret.key": secrets.token_urlsafe(24),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{BROKER};User:{ADMIN}",
        "default.replication.factor": str(BROKERS),
        "min.insync.replicas": "2",
    }
    return new_cluster(
        name,
        kafka,
        folder,
        properties,
        brokers=BROKERS,
        port=first,
        advertised_ports=by_sasl,
        loggers={AUTHORIZER_LOG: "DEBUG"},  # what is allowed, too
        long_lived=True,  # the first compiler alone knows nothing of AES
        certificate=pem / f"{ADMIN}.pem",
    )
