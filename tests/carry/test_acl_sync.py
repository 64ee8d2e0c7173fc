"""ACL sync between real clusters with StandardAuthorizer: what clients may do follows them to the target.

Brokers of a test see every client from 127.0.0.1, those of the gateway, too. So a host of `acl.sync.write.hosts` that
nobody comes from stands for gateways that are elsewhere.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AdminClient

from gateway.access.rules.rights import OPERATIONS, Rights
from gateway.devcluster import DevCluster
from gateway.kafka.access.acls import IN_A_REQUEST, create_acls, delete_acls, describe_acls
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.rules.acl import (
    OPERATION_CODES,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create_topic
from tests.support.brokers.quick_clusters import asked
from tests.support.brokers.secured_cluster import SECURED, Acls, inside, login
from tests.support.gateways.gateway import GatewayProcess
from tests.support.gateways.identity_scene import QUIET, produce
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

TOPIC, GROUP, ALLOW = ResourceType.TOPIC, ResourceType.GROUP, Permission.ALLOW
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
FILTERS = '{"aclFilters": [{"resourceFilter": {"resourceType": "any"}, "accessFilter": {"operation": "any"}}]}'
ELSEWHERE, HERE = "10.9.9.9", "127.0.0.1"
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED
MANY = 3_000


def acl(
    name: str,
    operation: Operation = READ,
    kind: ResourceType = TOPIC,
    *,
    who: str = "alice",
    host: str = "*",
    prefixed: bool = False,
    permission: Permission = ALLOW,
) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(kind, pattern, name, f"User:{who}", host, operation, permission)


class Side:
    """A cluster, and its ACLs as its administrator has them."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self._config = ClusterConfig.from_client_properties({"bootstrap.servers": inside(cluster)})

    def acls(self, who: str = "") -> frozenset[Acl]:
        """All, or those of one principal."""
        found = self._ask(describe_acls)
        return frozenset(one for one in found if not who or one.principal == f"User:{who}")

    def make(self, *acls: Acl) -> None:
        self._each(create_acls, acls)

    def delete(self, *acls: Acl) -> None:
        self._each(delete_acls, acls)

    def _each(self, change: Any, acls: tuple[Acl, ...]) -> None:
        for first in range(0, len(acls), IN_A_REQUEST):
            refused = self._ask(lambda cluster, at=first: change(cluster, acls[at : at + IN_A_REQUEST]))
            assert not refused, refused

    def _ask(self, question: Any) -> Any:
        return asked(self._config, question)


class Lab(NamedTuple):
    """A link between two clusters that ask who somebody is, with a gateway before the target."""

    source: Side
    target: Side
    gateway: GatewayProcess

    def client(self, who: str, *, direct: bool = False) -> dict[str, Any]:
        return login(who, self.target.cluster.bootstrap if direct else self.gateway.bootstrap) | QUIET

    def set(self, name: str, value: str) -> None:
        answer = self.gateway.api.put(f"/v3/links/west/configs/{name}", json={"value": value})
        assert answer.is_success, answer.text

    def mirrored(self, topic: str) -> None:
        create_topic(inside(self.source.cluster), topic, partitions=1)
        self.gateway.create_mirror("west", topic)
        wait_until(lambda: self.gateway.mirror("west", topic)["readable"], 60, what=f"{topic} to be readable")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("acl-sync")
    with (
        running_cluster("acl-source", "3.9.1", folder, properties=dict(SECURED)) as source,
        running_cluster("acl-target", "4.3.1", folder, properties=dict(SECURED)) as target,
    ):
        Acls(login("admin", target.bootstrap)).allow_a_gateway("gateway")
        properties = login("gateway", target.bootstrap)
        gateway = GatewayProcess(folder, properties.pop("bootstrap.servers"), target=properties)
        try:
            gateway.start()
            options = {"acl.sync.enable": "true", "acl.filters": FILTERS, "acl.sync.ms": "1000"}
            gateway.create_link("west", inside(source), **options, **{"acl.sync.write.hosts": ELSEWHERE})
            yield Lab(Side(source), Side(target), gateway)
            gateway.assert_runs()
        finally:
            gateway.close()
            print(gateway.log.read_text(errors="replace")[-8000:])  # noqa: T201 - pytest shows it when a test failed


def test_every_kind_follows_the_source(lab: Lab, topic: str) -> None:
    """Added and removed ones; what the target had before stays, also when the source takes the same away."""
    own = acl(f"{topic}-own", who="bob")
    made = {
        acl(topic, who="bob"),
        acl(topic, who="bob", prefixed=True),
        acl(topic, READ, GROUP, who="bob"),
        acl(topic, WRITE, ResourceType.TRANSACTIONAL_ID, who="bob"),
        acl("kafka-cluster", Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, who="bob"),
        acl("User:carol", Operation.CREATE_TOKENS, ResourceType.USER, who="bob"),
        acl(topic, WRITE, who="bob", permission=Permission.DENY),
    }
    lab.target.make(own)
    lab.source.make(own, *made)
    wait_until(lambda: lab.target.acls("bob") == made | {own}, 30, what="the ACLs to come")
    lab.source.delete(own, *made)
    wait_until(lambda: lab.target.acls("bob") == {own}, 30, what="the ACLs to go")


def test_rights_come_with_the_promote(lab: Lab, topic: str) -> None:
    lab.source.make(acl(topic, WRITE), acl(topic, READ), acl(topic, READ, GROUP))
    lab.mirrored(topic)
    narrow = {acl(topic, READ), acl(topic, DESCRIBE), acl(topic, READ, GROUP)}
    wait_until(
        lambda: (
            {one for one in lab.target.acls("alice") if one.name == topic}
            == narrow | {acl(topic, WRITE, host=ELSEWHERE)}
        ),
        30,
        what="the rights of a mirror topic",
    )
    for direct in (True, False):
        (error,) = produce(lab.client("alice", direct=direct), "no", topic, 10)
        assert error is not None
        assert error.code() == DENIED

    lab.set("acl.sync.write.hosts", HERE)
    wait_until(lambda: acl(topic, WRITE, host=HERE) in lab.target.acls("alice"), 30, what="the gateway's host")
    wait_until(lambda: acl(topic, WRITE, host=ELSEWHERE) not in lab.target.acls("alice"), 30, what="no other host")
    wait_until(lambda: produce(lab.client("alice"), "yes", topic, 10) == [None], 60, what="a write by the gateway")
    lab.gateway.promote("west", topic)
    wait_until(lambda: lab.gateway.mirror("west", topic)["mirror_status"] == "STOPPED", 60, what="the promote")
    wait_until(lambda: acl(topic, WRITE) in lab.target.acls("alice"), 10, what="all rights")
    for direct in (False, True):
        assert produce(lab.client("alice", direct=direct), "now", topic, 10) == [None]
    answer = lab.gateway.api.get("/v3/links/west/access", params={"principal": "User:alice", "topic": topic}).json()
    assert answer["differences"] == 0, answer
    lab.set("acl.sync.write.hosts", ELSEWHERE)


def test_thousands_and_a_kill(lab: Lab, topic: str) -> None:
    """Killed while it makes them, the gateway knows afterwards which are its own, and takes away all of them again."""
    many = [acl(f"{topic}-{index}", READ, GROUP, who="carol") for index in range(MANY)]
    lab.source.make(*many)
    began = time.monotonic()
    wait_until(lambda: len(lab.target.acls("carol")) > IN_A_REQUEST, 60, what="the first ACLs")
    lab.gateway.kill()
    assert len(lab.target.acls("carol")) < MANY, "the kill came too late to show anything"
    lab.gateway.start()
    wait_until(lambda: len(lab.target.acls("carol")) == MANY, 90, what="all ACLs")
    print(f"{MANY} ACLs, with a kill: {time.monotonic() - began:.1f} s")  # noqa: T201 - a figure for who runs it
    lab.source.delete(*many)
    wait_until(lambda: not lab.target.acls("carol"), 60, what="all ACLs to go")


def test_the_authorizer_says_what_we_say(lab: Lab, topic: str) -> None:
    """`access check` works rights out from ACLs; the broker tells the same of random ones (KIP-430)."""
    dice = random.Random(19)
    names = [f"{topic}-{index}" for index in range(12)]
    for name in names:
        create_topic(inside(lab.source.cluster), name, partitions=1)
    patterns = [(name, False) for name in names] + [(topic, True), (f"{topic}-1", True), ("*", False)]
    operations = [Operation.ALL, *OPERATIONS[TOPIC]]
    acls = set()
    for _ in range(60):
        name, prefixed = dice.choice(patterns)
        acls.add(
            acl(
                name,
                dice.choice(operations),
                who=dice.choice(["mallory", "mallory", "*"]),
                host=dice.choice(["*", HERE, ELSEWHERE]),
                prefixed=prefixed,
                permission=Permission.DENY if dice.random() < 0.25 else ALLOW,
            )
        )
    lab.source.make(*acls)
    try:
        rights = Rights(acls, "User:mallory")
        admin = AdminClient(login("mallory", lab.source.cluster.bootstrap) | QUIET)
        for name in names:
            mine = {one for one in OPERATIONS[TOPIC] if rights.may(TOPIC, name, one, HERE)}
            told = admin.describe_topics(TopicCollection([name]), include_authorized_operations=True)[name]
            if DESCRIBE not in mine:
                assert told.exception(30) is not None, name
                continue
            codes = {int(one.value) for one in told.result(30).authorized_operations}
            assert {OPERATION_CODES[one] for one in mine} == codes, name
    finally:
        lab.source.delete(*acls)


def test_a_failover_gives_what_was_held_back(lab: Lab, topic: str) -> None:
    """The source does not answer. What it granted is remembered."""
    lab.source.make(acl(topic, WRITE))
    lab.mirrored(topic)
    wait_until(lambda: acl(topic, DESCRIBE) in lab.target.acls("alice"), 30, what="the rights of a mirror topic")
    assert acl(topic, WRITE) not in lab.target.acls("alice")
    lab.source.cluster.kill()
    try:
        answer = lab.gateway.api.post(f"/v3/links/west/mirrors/{topic}:failover")
        assert answer.is_success, answer.text
        wait_until(lambda: acl(topic, WRITE) in lab.target.acls("alice"), 60, what="all rights")
        assert produce(lab.client("alice"), "now", topic, 10) == [None]
    finally:
        lab.source.cluster.up()
