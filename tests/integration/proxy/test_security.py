"""The target itself decides who a client is and what it may write; the gateway asks it on the client's connection."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.brokers.secured_cluster import login
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SECURE = {
    "listener.security.protocol.map": (
        "PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": f'{PLAIN} user_admin="admin" user_alice="alice" user_bob="bob";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A target whose clients must log in, with an authoriser."""
    folder = tmp_path_factory.mktemp("secured")
    with running_cluster("secured", "4.3.1", folder, properties=SECURE) as cluster:
        yield cluster


def allow(cluster: DevCluster, user: str, topic: str) -> None:
    """Let a user write to a topic."""
    admin = AdminClient(login("admin", cluster.bootstrap))
    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([binding])[binding].result(30)


def write(user: str, gateway: GatewayProcess, topic: str) -> KafkaError | None:
    """Write one record under a user's name; the delivery's error."""
    errors: list[KafkaError | None] = []
    settings = {**login(user, gateway.bootstrap), "message.timeout.ms": 20_000, "enable.idempotence": True}
    producer = Producer(settings)
    producer.produce(topic, value=user.encode(), partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    return errors[0]


def test_only_who_may_write_on_the_target_is_forwarded(
    source: DevCluster, secured: DevCluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    allow(secured, "alice", topic)
    admin = login("admin", secured.bootstrap)
    gateway = GatewayProcess(tmp_path, secured.bootstrap, target=admin)
    gateway.start()
    try:
        gateway.create_link("west", source.bootstrap)
        gateway.create_mirror("west", topic)
        assert write("alice", gateway, topic) is None
        refused = write("bob", gateway, topic)
        assert refused is not None
        assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        (log,) = read_logs(source.bootstrap, topic, 1)
        assert [record.value for record in log] == [b"alice"]
        wait_until(
            lambda: all(p["lag"] == 0 for p in gateway.mirror("west", topic)["mirror_lags"]), what="the mirror is level"
        )
    finally:
        gateway.delete_link("west")
        gateway.close()


@contextmanager
def certificate(folder: Path) -> Iterator[tuple[Path, Path]]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    crt, key = folder / "gateway.crt", folder / "gateway.key"
    subject = ["-subj", "/CN=gateway", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(crt)]
    subprocess.run([*command, *subject], check=True, capture_output=True)
    ssl.create_default_context(cafile=str(crt))
    yield crt, key


def test_clients_speak_tls_to_the_gateway(target: DevCluster, topic: str, tmp_path: Path) -> None:
    create_topic(target.bootstrap, topic, partitions=1)
    with certificate(tmp_path) as (crt, key):
        tls = {"certificate": str(crt), "key": str(key)}
        gateway = GatewayProcess(tmp_path, target.bootstrap, listener={"tls": tls})
        gateway.start()
        try:
            settings: dict[str, Any] = {
                "bootstrap.servers": gateway.bootstrap,
                "security.protocol": "SSL",
                "ssl.ca.location": str(crt),
            }
            producer = Producer(settings)
            for n in range(1000):
                producer.produce(topic, value=b"x" * 1000, key=str(n))
            assert producer.flush(30) == 0
            consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
            consumer.subscribe([topic])
            read = 0

            def all_read() -> bool:
                nonlocal read
                read += sum(1 for message in consumer.consume(500, 0.2) if message.error() is None)
                return read == 1000

            wait_until(all_read, what="1000 records over TLS")
            consumer.close()
        finally:
            gateway.close()
