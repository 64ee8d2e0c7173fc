"""`link.identity=client` on real brokers: what clients write to the source, they write as themselves.

The link's own principal may not write there at all, so each record in the source's log was written by its client's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.brokers.secured_cluster import (
    CLUSTER,
    CREATE_TOKENS,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    READ,
    SECURED,
    TOPIC,
    TRANSACTIONAL_ID,
    USER,
    WRITE,
    Acls,
    by_tls,
    inside,
    login,
)
from tests.support.brokers.tls_terminator import terminator_before
from tests.support.gateways.identity_scene import QUIET, Scene, produce
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED


class Source:
    """A cluster whose clients log in, and a link to it whose principal may read there and make tokens for two."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.acls = Acls(login("admin", cluster.bootstrap))
        reads = [(TOPIC, "*", READ), (TOPIC, "*", DESCRIBE_CONFIGS), (GROUP, "*", READ)]
        reads += [(TRANSACTIONAL_ID, "*", DESCRIBE), (CLUSTER, "kafka-cluster", DESCRIBE)]
        self.acls.allow("gateway", *reads, *((USER, f"User:{who}", CREATE_TOKENS) for who in ("alice", "bob")))


@pytest.fixture(scope="module")
def source(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    scene.acls.allow_a_gateway("gateway", "carol")
    folder = tmp_path_factory.mktemp("link-identity")
    with (
        running_cluster("source-of-identity", "3.9.1", folder, properties=dict(SECURED)) as cluster,
        terminator_before(cluster).running() as terminator,
    ):
        terminator.show(scene.certificates.server("source"))
        made = Source(cluster)
        own = by_tls(cluster, "gateway", scene.certificates.ca)
        own |= {"sasl.password": "${env:LOCKGATE_LINK_OWN_PASSWORD}", "link.identity": "client"}
        scene.gateway.create_link("own", own.pop("bootstrap.servers"), **own)
        try:
            yield made
        finally:
            scene.gateway.delete_link("own")


@pytest.fixture
def mirrored(scene: Scene, source: Source, topic: str) -> str:
    """A topic of the source that is mirrored. alice, bob and carol may write it on the target."""
    create_topic(inside(source.cluster), topic, partitions=1)
    for who in ("alice", "bob", "carol"):
        scene.acls.allow(who, (TOPIC, topic, WRITE))
    scene.gateway.create_mirror("own", topic)
    return topic


def write(scene: Scene, who: str, topic: str) -> KafkaError | None:
    """By a login that is relayed."""
    (error,) = produce({**login(who, scene.relay)}, who, topic, 20.0)
    return error


def test_each_writes_on_the_source_as_itself(scene: Scene, source: Source, mirrored: str) -> None:
    refused = write(scene, "alice", mirrored)
    assert refused is not None
    assert refused.code() == DENIED  # the source has not allowed her, whatever the target and the link may say
    source.acls.allow("alice", (TOPIC, mirrored, WRITE))
    assert write(scene, "alice", mirrored) is None
    (by_certificate,) = produce(
        scene.certificates.client_of_a_gateway(scene.gateway.bootstrap, "alice"), "alice", mirrored, 20.0
    )
    assert by_certificate is None
    bob = write(scene, "bob", mirrored)
    assert bob is not None
    assert bob.code() == DENIED
    (log,) = read_logs(inside(source.cluster), mirrored, 1)
    assert [record.value for record in log] == [b"alice", b"alice"]
    assert 'lockgate_delegation_tokens{link="own"} ' in scene.gateway.api.get("/metrics").text
    wait_until(
        lambda: all(p["lag"] == 0 for p in scene.gateway.mirror("own", mirrored)["mirror_lags"]), what="it is mirrored"
    )


def test_the_missing_acl_is_named(scene: Scene, source: Source, mirrored: str) -> None:
    source.acls.allow("carol", (TOPIC, mirrored, WRITE))
    error = write(scene, "carol", mirrored)
    assert error is not None
    assert error.code() == DENIED
    logged = scene.logged()
    assert "lacks the ACL CreateTokens on User:carol" in logged
    assert "source of link own" in logged


def test_transactions(scene: Scene, source: Source, mirrored: str) -> None:
    """The link's principal may find the coordinator of a transactional id, and no more."""
    names = {"alice": f"{mirrored}-alice", "bob": f"{mirrored}-bob"}
    for who, name in names.items():
        scene.acls.allow(who, (TRANSACTIONAL_ID, name, WRITE))
    source.acls.allow("alice", (TOPIC, mirrored, WRITE), (TRANSACTIONAL_ID, names["alice"], WRITE))
    transact(scene, "alice", names["alice"], mirrored)

    def committed() -> bool:
        (log,) = read_logs(inside(source.cluster), mirrored, 1)
        return [record.value for record in log] == [b"alice"]

    wait_until(committed, what="the markers of the transaction are in the source's log")
    with pytest.raises(KafkaException) as refused:
        transact(scene, "bob", names["bob"], mirrored)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def transact(scene: Scene, who: str, name: str, topic: str) -> None:
    settings: dict[str, Any] = {**login(who, scene.relay), "transactional.id": name, **QUIET}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value=who.encode(), partition=0)
    producer.commit_transaction(30)
