"""A plan tells which rights its user lacks on a target with an authorizer; what it names would be refused indeed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from gateway.devcluster import DevCluster
from gateway.doctor.rules.rights import DELETE, NEEDED
from gateway.jobs.kafka import ask
from gateway.jobs.plan.assess import MigrationAssessment
from gateway.jobs.plan.job import run_plan, to_dict
from gateway.kafka.admin import TopicConfigChange, alter_topic_configs, describe_topic_configs
from gateway.kafka.cluster import Cluster
from gateway.kafka.commits import commit_offsets
from gateway.kafka.connection.errors import NetError
from gateway.kafka.offsets import delete_records
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create_topic
from tests.support.brokers.secured_cluster import login
from tests.support.waiting import wait_until

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SECURE = {
    "listener.security.protocol.map": (
        "PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": f'{PLAIN} user_admin="admin" user_mover="mover";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
PREFIX = "w."
RIGHTS = [right.name for right in (*NEEDED, DELETE)]


class Target:
    """A cluster with an authorizer, and what `mover` may do on it."""

    def __init__(self, cluster: DevCluster) -> None:
        self.bootstrap = cluster.bootstrap
        self.admin = AdminClient({**login("admin", cluster.bootstrap), "log_level": 0})
        self.mover = login("mover", cluster.bootstrap)

    def allow(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        bindings = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, "User:mover", "*", operation, AclPermissionType.ALLOW)
            for operation in operations
        ]
        for done in self.admin.create_acls(bindings).values():
            done.result(30)
        wait_until(lambda: len(self.acls(kind, name)) >= len(operations), what="the ACLs")

    def acls(self, kind: ResourceType = ResourceType.ANY, name: Any = None) -> set[str]:
        whoever: Any = None
        every = AclBindingFilter(
            kind, name, ResourcePatternType.ANY, whoever, whoever, AclOperation.ANY, AclPermissionType.ANY
        )
        return {str(binding) for binding in self.admin.describe_acls(every).result(30)}

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=30).topics)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with running_cluster("guarded", "4.3.1", tmp_path_factory.mktemp("guarded"), properties=SECURE) as cluster:
        yield Target(cluster)


def create(target: Target, topic: str) -> None:
    for done in target.admin.create_topics([NewTopic(topic, 1, 1)]).values():
        done.result(30)


def plan(source: DevCluster, target: Target, topic: str) -> MigrationAssessment:
    return run_plan({"bootstrap.servers": source.bootstrap}, target.mover, [topic], rate=1e6, prefix=PREFIX)


def lacking(found: MigrationAssessment) -> list[str]:
    """The rights that blockers name."""
    return [text.partition(" lacks ")[2].split()[0] for text in found.blockers if " lacks " in text]


@pytest.mark.parametrize("there", [True, False], ids=["there", "to be created"])
def test_the_rights_on_a_mirror_topic(source: DevCluster, guarded: Target, topic: str, there: bool) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    mirror = PREFIX + topic
    if there:
        create(guarded, mirror)
    guarded.allow(ResourceType.TOPIC, mirror, AclOperation.CREATE, AclOperation.DESCRIBE)
    before = guarded.acls(), guarded.topics()

    found = plan(source, guarded, topic)

    assert lacking(found) == RIGHTS
    assert f"{topic}: the target's topic {mirror}: this user lacks WRITE on it: records are appended" in str(
        found.blockers
    )
    assert any(f"lacks ALTER on the target's topic {mirror}" in text for text in found.topics[0].notes)
    assert to_dict(found)["blockers"] == list(found.blockers)
    assert (guarded.acls(), guarded.topics()) == before, "asking has changed something"

    guarded.allow(ResourceType.TOPIC, mirror, AclOperation.WRITE, AclOperation.READ)
    assert lacking(plan(source, guarded, topic)) == ["DESCRIBE_CONFIGS", "ALTER_CONFIGS", "DELETE"]
    guarded.allow(ResourceType.TOPIC, mirror, AclOperation.ALL)
    found = plan(source, guarded, topic)
    assert (found.blockers, found.topics[0].notes) == ((), ())


def test_a_user_without_any_right(source: DevCluster, guarded: Target, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    create(guarded, PREFIX + topic)

    assert lacking(plan(source, guarded, topic)) == RIGHTS


def test_the_right_to_describe_the_cluster(source: DevCluster, guarded: Target, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    lacks = "this user lacks DESCRIBE on the target's cluster"

    assert [text for text in plan(source, guarded, topic).notes if text.startswith(lacks)]
    guarded.allow(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
    assert not [text for text in plan(source, guarded, topic).notes if text.startswith(lacks)]


async def altered(cluster: Cluster, topic: str) -> None:
    for refused in (await alter_topic_configs(cluster, {topic: TopicConfigChange({"retention.ms": "1"})})).values():
        raise refused


def test_each_of_them_is_refused_indeed(source: DevCluster, guarded: Target, topic: str) -> None:
    create(guarded, topic)
    guarded.allow(ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    guarded.allow(ResourceType.GROUP, topic, AclOperation.READ)

    def assert_refused(work: Callable[[Cluster], Any]) -> None:
        with pytest.raises(NetError, match=r"(?i)topic.authorization.failed|error 29"):
            ask(guarded.mover, work)

    assert_refused(lambda cluster: delete_records(cluster, {(topic, 0): 0}))
    assert_refused(lambda cluster: altered(cluster, topic))
    assert_refused(lambda cluster: describe_topic_configs(cluster, [topic]))
    assert_refused(lambda cluster: commit_offsets(cluster, topic, {(topic, 0): 0}))
    errors: list[KafkaError | None] = []
    producer = Producer({**guarded.mover, "message.timeout.ms": 20_000, "log_level": 0})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert errors[0] is not None
    assert errors[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_what_a_cluster_does_not_tell_and_what_follows(guarded: Target, topic: str) -> None:
    create(guarded, topic)
    guarded.allow(ResourceType.TOPIC, topic, AclOperation.READ)

    untold = run_plan(guarded.mover, None, [topic], rate=1e6).inventory.untold

    (configs,) = [text for text in untold if text.startswith("the source's topic configs (")]
    assert configs.endswith(
        "): compacted topics and LogAppendTime go unnoticed; that takes DESCRIBE_CONFIGS on the topics"
    )
