"""Clusters whose clients log in, with an authoriser and delegation tokens; and the rights of their principals."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from gateway.devcluster import DevCluster
from gateway.kafka.connection.config import ClusterConfig
from protocol.messages import CreateAclsRequest, DeleteAclsRequest, DescribeDelegationTokenRequest
from tests.support.brokers.quick_clusters import asked

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="nobody";'
)
USERS = " ".join(f'user_{name}="{name}"' for name in ("admin", "gateway", "alice", "bob", "carol", "mallory"))
LOGINS = {
    "plain": f"{PLAIN} {USERS};",
    "scram-sha-256": SCRAM,
    "scram-sha-512": SCRAM,
    "oauthbearer": UNSECURED,
}
SECURED: Mapping[str, str] = {
    "listener.security.protocol.map": (
        "PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,PROXIED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": ",".join(mechanism.upper() for mechanism in LOGINS),
    **{
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config": jaas
        for listener in ("plaintext", "proxied")
        for mechanism, jaas in LOGINS.items()
    },
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": "the secret of a test",
}
"""Broker properties. `admin` may do everything; the password of each user of PLAIN is its name. Bearer tokens are
believed unsigned."""

ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, USER = 1, 2, 3, 4, 5, 7
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 2, 3, 4, 5, 6, 7, 8
DESCRIBE_CONFIGS, ALTER_CONFIGS, CREATE_TOKENS = 10, 11, 13
_LITERAL, _ALLOW, _DENY = 3, 3, 2


def inside(cluster: DevCluster) -> str:
    """`bootstrap.servers` of the listener of the brokers, where nobody logs in and everybody may do everything."""
    return ",".join(f"127.0.0.1:{node.internal_port}" for node in cluster.spec.nodes)


def by_tls(cluster: DevCluster, user: str, ca: Path) -> dict[str, Any]:
    """Client properties of a user who comes by the proxied listener, with TLS before it (`tls_terminator.py`)."""
    return {**login(user, cluster.proxied_bootstrap), "security.protocol": "SASL_SSL", "ssl.ca.location": str(ca)}


def login(user: str, bootstrap: str) -> dict[str, Any]:
    """Client properties of a user of PLAIN."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": user,
    }


def give_scram_passwords(cluster: DevCluster, *users: str) -> None:
    """Their names, for both mechanisms."""
    admin = AdminClient({"bootstrap.servers": inside(cluster)})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        changes: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password=user.encode())
            for user in users
        ]  # a user may stand in a request once
        for made in admin.alter_user_scram_credentials(changes).values():
            made.result(30)


def unsigned_token(user: str) -> str:
    """A bearer token for ten minutes, as the brokers of these tests believe it."""
    now = int(time.time())
    parts = [{"alg": "none"}, {"sub": user, "iat": now, "exp": now + 600}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


class Acls:
    """Rights on a cluster, given by its administrator. `properties`: how it logs in."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._config = ClusterConfig.from_client_properties(properties)

    def allow(self, who: str, *rights: tuple[int, str, int]) -> None:
        """`rights`: resource type, its name, operation."""
        kind = CreateAclsRequest.AclCreation
        made = [
            kind(
                resource_type=resource,
                resource_name=name,
                resource_pattern_type=_LITERAL,
                principal=f"User:{who}",
                host="*",
                operation=operation,
                permission_type=_ALLOW,
            )
            for resource, name, operation in rights
        ]
        for result in self._ask(CreateAclsRequest(creations=made)).results:
            assert not result.error_code, result

    def allow_a_gateway(self, who: str, *clients: str) -> None:
        """All that a gateway does by itself, and tokens for these clients."""
        everything = [
            (TOPIC, "*", ALL),
            (GROUP, "*", ALL),
            (TRANSACTIONAL_ID, "*", ALL),
            (CLUSTER, "kafka-cluster", ALL),
        ]
        self.allow(who, *everything, *((USER, f"User:{client}", CREATE_TOKENS) for client in clients))

    def take_back(self, who: str, resource: int, name: str, operation: int) -> None:
        """Of what `allow` gave."""
        kind = DeleteAclsRequest.DeleteAclsFilter
        gone = kind(
            resource_type_filter=resource,
            resource_name_filter=name,
            pattern_type_filter=_LITERAL,
            principal_filter=f"User:{who}",
            host_filter="*",
            operation=operation,
            permission_type=_ALLOW,
        )
        (result,) = self._ask(DeleteAclsRequest(filters=[gone])).filter_results
        assert len(result.matching_acls) == 1, result

    def tokens(self, requester: str) -> list[str]:
        """The owners of the delegation tokens that there are, of those that somebody has asked for."""
        found = self._ask(DescribeDelegationTokenRequest(owners=None)).tokens
        return [token.principal_name for token in found if token.token_requester_principal_name == requester]

    def _ask(self, message: Any) -> Any:
        return asked(self._config, lambda cluster: cluster.request(message))
