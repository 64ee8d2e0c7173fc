"""Brokers that ask who somebody is, with an authorizer; and what their administrator does to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from demo.access import Access
from demo.carry.rights import ADMIN, GATEWAY, Right
from demo.clusters import new_cluster
from demo.errors import DemoError
from demo.settings import CLUSTER_UP_S
from gateway.devcluster import DevCluster
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig

T = TypeVar("T")

AUTHORIZER_LOG: Final = "kafka.authorizer.logger"
MECHANISM: Final = "SCRAM-SHA-256"
_ITERATIONS: Final = 4096
_WAIT_S: Final = 120.0
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def carry_cluster(name: str, kafka: str, folder: Path, passwords: Mapping[str, str]) -> DevCluster:
    """One broker. Clients log in by SCRAM, the administrator and the gateway by PLAIN, with `passwords`.

    The broker's own listeners on the loopback are open.
    """
    users = " ".join(f'user_{user}="{passwords[user]}"' for user in (ADMIN, GATEWAY))
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{_PLAIN} {users};",
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": _SCRAM,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
    }
    return new_cluster(name, kafka, folder, properties, loggers={AUTHORIZER_LOG: "DEBUG"})  # what is allowed, too


def login(user: str, password: str, mechanism: str = MECHANISM) -> dict[str, str]:
    """Client properties."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def administer(bootstrap: str, access: Access, what: str, ask: Callable[[Any], Iterable[Future[Any]]]) -> list[Any]:
    """Ask a cluster by librdkafka's admin client: nothing of lockgate's is in it.

    Args:
        what: for the error. ask: what is asked of the client.

    Raises:
        DemoError: the cluster refuses, or does not answer.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3, **access})  # lives until all is answered
    try:
        return [future.result(_WAIT_S) for future in ask(admin)]
    except (KafkaException, TimeoutError) as error:
        raise DemoError(f"{what} on {bootstrap}: {error}") from error


def make_users(bootstrap: str, access: Access, passwords: Mapping[str, str]) -> None:
    """SCRAM users. Raises DemoError when the cluster refuses."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, _ITERATIONS)
    wanted = [UserScramCredentialUpsertion(user, info, password=secret.encode()) for user, secret in passwords.items()]
    administer(bootstrap, access, "users", lambda admin: admin.alter_user_scram_credentials(wanted).values())


def give(bootstrap: str, access: Access, rights: Iterable[Right]) -> None:
    """Create ACLs. Raises DemoError when the cluster refuses."""
    wanted = [right.binding for right in rights]
    administer(bootstrap, access, "ACLs", lambda admin: admin.create_acls(wanted).values())


def take_away(bootstrap: str, access: Access, right: Right) -> None:
    """Delete an ACL. Raises DemoError when the cluster refuses, or has no such ACL."""
    (gone,) = administer(bootstrap, access, "ACLs", lambda admin: admin.delete_acls([right.filter]).values())
    if len(gone) != 1:
        raise DemoError(f"{bootstrap} has {len(gone)} ACLs like {right}")


def asked(bootstrap: str, access: Access, question: Callable[[Cluster], Awaitable[T]]) -> T:
    """What librdkafka has no admin request for, by a client of our own: quotas, start offsets of share groups."""
    config = ClusterConfig.from_client_properties({"bootstrap.servers": bootstrap, **access})

    async def ask() -> T:
        cluster = Cluster(config)
        try:
            await cluster.start(CLUSTER_UP_S, topics=[])
            return await question(cluster)
        finally:
            await cluster.close()

    return asyncio.run(ask())
