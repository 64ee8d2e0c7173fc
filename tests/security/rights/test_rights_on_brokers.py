"""Each row of docs/operate/rights.md, "What is asked of the target", on real brokers with StandardAuthorizer.

Whoever lacks a right is told by the gateway what the broker itself tells, and nothing has happened; whoever has it is
served. The source asks for no login: what the gateway sends there, it sends for whoever the target has agreed to.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from gateway.devcluster import DevCluster
from protocol import messages as m
from protocol.errors import ErrorCode
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.brokers.secured_cluster import (
    ALTER,
    ALTER_CONFIGS,
    CREATE,
    DELETE,
    DESCRIBE,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    inside,
    login,
)
from tests.support.clients.raw_client import RawClient, error_codes
from tests.support.gateways.identity_scene import QUIET, Scene
from tests.support.mirror.batches import make_batch
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

NO_TOPIC: Final = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
NO_GROUP: Final = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
NO_CLUSTER: Final = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
NO_TRANSACTION: Final = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
DENIED: Final = {NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION}
POLICY: Final = {int(ErrorCode.POLICY_VIOLATION)}
TRANSACTIONAL: Final = 0x10  # attributes of a batch
RECORD: Final = bytes([14, 0, 0, 0, 1, 2, 97, 0])  # its length, attributes, deltas; no key, "a", no header


class Names(NamedTuple):
    """Of one run. `closed`: a group with a member on the source. `unmirrored`: a topic that only the source has."""

    mirrored: str
    unmirrored: str
    transaction: str
    closed: str
    unknown: str


class Lab(NamedTuple):
    """alice may do everything with `names`, mallory nothing, here or in other tests; carol may write with the
    transactional id, and no more."""

    scene: Scene
    source: DevCluster
    link: str
    names: Names

    def through(self, who: str, message: Any, version: int) -> set[int]:
        """The error codes of the answer that the gateway gives."""
        return _told(self.scene.relay, who, message, version)

    def directly(self, who: str, message: Any, version: int) -> set[int]:
        """The error codes of the answer that the broker itself gives."""
        return _told(self.scene.target.bootstrap, who, message, version)


def _told(bootstrap: str, who: str, message: Any, version: int) -> set[int]:
    client = RawClient(bootstrap, who, client_id=who)
    try:
        return error_codes(client.ask(message, version))
    finally:
        client.close()


@pytest.fixture(scope="module")
def lab(scene: Scene, source: DevCluster) -> Iterator[Lab]:
    tag = uuid.uuid4().hex[:8]
    names = Names(*(f"rights-{tag}-{name}" for name in Names._fields))
    link = f"link-{tag}"
    for topic in (names.mirrored, names.unmirrored):
        create_topic(source.bootstrap, topic, partitions=1)
    rights = [(TOPIC, names.mirrored, right) for right in (READ, WRITE, DELETE, ALTER, ALTER_CONFIGS)]
    rights += [(TOPIC, names.unmirrored, CREATE), (TRANSACTIONAL_ID, names.transaction, WRITE)]
    rights += [(GROUP, group, READ) for group in (names.closed, names.unknown)]
    scene.acls.allow("alice", *rights)
    scene.acls.allow("carol", (TRANSACTIONAL_ID, names.transaction, WRITE))
    scene.gateway.create_link(link, source.bootstrap)
    member = Consumer({"bootstrap.servers": source.bootstrap, "group.id": names.closed, **QUIET})
    member.subscribe([names.mirrored])
    try:
        scene.gateway.create_mirror(link, names.mirrored)
        wait_until(lambda: (member.poll(0), member.assignment())[1], what="the group has a member on the source")
        _declare(scene, link, names.closed)
        yield Lab(scene, source, link, names)
    finally:
        member.close()
        scene.gateway.delete_link(link)


def _declare(scene: Scene, link: str, group: str) -> None:
    answer = scene.gateway.api.post(f"/v3/links/{link}/groups", json={"group": group})
    assert answer.is_success, answer.text


# -- the requests, each as a broker would take it ----------------------------------------------------------------------


def produce(topic: str, transaction: str | None = None) -> tuple[Any, int]:
    kind = m.ProduceRequest.TopicProduceData
    batch = make_batch(0, 1, payload=RECORD)
    if transaction is not None:
        batch = make_batch(0, 1, payload=RECORD, attributes=TRANSACTIONAL, producer_id=1, epoch=0, sequence=0)
    part = kind.PartitionProduceData(index=0, records=batch)
    data = [kind(name=topic, partition_data=[part])]
    return m.ProduceRequest(transactional_id=transaction, acks=-1, timeout_ms=5_000, topic_data=data), 9


Ids = tuple[int, int]
"""Producer id and epoch."""

NOBODYS: Final[Ids] = (1, 0)


def init(transaction: str | None) -> tuple[Any, int]:
    return m.InitProducerIdRequest(transactional_id=transaction, transaction_timeout_ms=60_000), 1


def add_partitions(transaction: str, topic: str, ids: Ids = NOBODYS) -> tuple[Any, int]:
    topics = [m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[0])]
    return (
        m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transaction,
            v3_and_below_producer_id=ids[0],
            v3_and_below_producer_epoch=ids[1],
            v3_and_below_topics=topics,
        ),
        3,
    )


def add_offsets(transaction: str, group: str) -> tuple[Any, int]:
    return m.AddOffsetsToTxnRequest(transactional_id=transaction, producer_id=1, producer_epoch=0, group_id=group), 3


def txn_offsets(transaction: str, group: str, topic: str) -> tuple[Any, int]:
    kind = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    part = kind.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
    )
    return (
        m.TxnOffsetCommitRequest(
            transactional_id=transaction,
            group_id=group,
            producer_id=1,
            producer_epoch=0,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[kind(name=topic, partitions=[part])],
        ),
        3,
    )


def end(transaction: str, producer_id: int = 1, epoch: int = 0) -> tuple[Any, int]:
    return (
        m.EndTxnRequest(transactional_id=transaction, producer_id=producer_id, producer_epoch=epoch, committed=False),
        3,
    )


def join(group: str) -> tuple[Any, int]:
    protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")
    return (
        m.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[protocol],
        ),
        5,
    )


def heartbeat(group: str) -> tuple[Any, int]:
    return (
        m.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=str(uuid.uuid4()),
            member_epoch=0,
            instance_id=None,
            rack_id=None,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["any"],
            server_assignor=None,
            topic_partitions=[],
        ),
        0,
    )


def commit(group: str, topic: str) -> tuple[Any, int]:
    kind = m.OffsetCommitRequest.OffsetCommitRequestTopic
    part = kind.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
    )
    return (
        m.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[kind(name=topic, partitions=[part])],
        ),
        8,
    )


def fetch_offsets(group: str) -> tuple[Any, int]:
    groups = [m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)]
    return m.OffsetFetchRequest(groups=groups, require_stable=False), 8


def delete_groups(group: str) -> tuple[Any, int]:
    return m.DeleteGroupsRequest(groups_names=[group]), 2


def describe_consumer_groups(group: str) -> tuple[Any, int]:
    return m.ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False), 0


def delete_offsets(group: str, topic: str) -> tuple[Any, int]:
    kind = m.OffsetDeleteRequest.OffsetDeleteRequestTopic
    part = kind.OffsetDeleteRequestPartition(partition_index=0)
    return m.OffsetDeleteRequest(group_id=group, topics=[kind(name=topic, partitions=[part])]), 0


def delete_topics(topic: str) -> tuple[Any, int]:
    return m.DeleteTopicsRequest(topic_names=[topic], timeout_ms=5_000), 4


def delete_topic_states(topic: str) -> tuple[Any, int]:
    states = [m.DeleteTopicsRequest.DeleteTopicState(name=topic)]
    return m.DeleteTopicsRequest(topics=states, timeout_ms=5_000), 6


def delete_records(topic: str) -> tuple[Any, int]:
    kind = m.DeleteRecordsRequest.DeleteRecordsTopic
    part = kind.DeleteRecordsPartition(partition_index=0, offset=0)
    return m.DeleteRecordsRequest(topics=[kind(name=topic, partitions=[part])], timeout_ms=5_000), 2


def create_partitions(topic: str) -> tuple[Any, int]:
    topics = [m.CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=2, assignments=None)]
    return m.CreatePartitionsRequest(topics=topics, timeout_ms=5_000, validate_only=False), 3


def alter_configs(topic: str) -> tuple[Any, int]:
    kind = m.AlterConfigsRequest.AlterConfigsResource
    config = kind.AlterableConfig(name="retention.ms", value="1000")
    resources = [kind(resource_type=2, resource_name=topic, configs=[config])]
    return m.AlterConfigsRequest(resources=resources, validate_only=False), 2


def incremental_alter(topic: str) -> tuple[Any, int]:
    kind = m.IncrementalAlterConfigsRequest.AlterConfigsResource
    config = kind.AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    resources = [kind(resource_type=2, resource_name=topic, configs=[config])]
    return m.IncrementalAlterConfigsRequest(resources=resources, validate_only=False), 1


def create(topic: str) -> tuple[Any, int]:
    kind = m.CreateTopicsRequest.CreatableTopic
    topics = [kind(name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=[])]
    return m.CreateTopicsRequest(topics=topics, timeout_ms=5_000, validate_only=False), 5


def describe_groups(group: str) -> tuple[Any, int]:
    return m.DescribeGroupsRequest(groups=[group], include_authorized_operations=False), 5


# -- the table ---------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """`rows`: what the row of the table begins with. `says`: the code for who lacks the right. `who`: lacks it."""

    row: str
    who: str
    says: int
    ask: Callable[[Names], tuple[Any, int]]


CASES: Final = {
    "produce": Case("Produce to a mirrored topic", "mallory", NO_TOPIC, lambda n: produce(n.mirrored)),
    "produce in a transaction": Case(
        "Produce in a transaction", "mallory", NO_TRANSACTION, lambda n: produce(n.mirrored, n.transaction)
    ),
    "init": Case("InitProducerId", "mallory", NO_TRANSACTION, lambda n: init(n.transaction)),
    "init of no transaction": Case("InitProducerId", "mallory", NO_CLUSTER, lambda n: init(None)),
    "add partitions": Case(
        "AddPartitionsToTxn", "mallory", NO_TRANSACTION, lambda n: add_partitions(n.transaction, n.mirrored)
    ),
    "add offsets": Case("AddOffsetsToTxn", "mallory", NO_TRANSACTION, lambda n: add_offsets(n.transaction, n.closed)),
    "add offsets of a group": Case(
        "AddOffsetsToTxn", "carol", NO_GROUP, lambda n: add_offsets(n.transaction, n.closed)
    ),
    "offsets in a transaction": Case(
        "TxnOffsetCommit", "mallory", NO_TRANSACTION, lambda n: txn_offsets(n.transaction, n.closed, n.mirrored)
    ),
    "offsets of a group in a transaction": Case(
        "TxnOffsetCommit", "carol", NO_GROUP, lambda n: txn_offsets(n.transaction, n.closed, n.mirrored)
    ),
    "end": Case("EndTxn", "mallory", NO_TRANSACTION, lambda n: end(n.transaction)),
    "join a closed group": Case("JoinGroup, Consumer", "mallory", NO_GROUP, lambda n: join(n.closed)),
    "join an unknown group": Case("JoinGroup, Consumer", "mallory", NO_GROUP, lambda n: join(n.unknown)),
    "heartbeat of a closed group": Case("JoinGroup, Consumer", "mallory", NO_GROUP, lambda n: heartbeat(n.closed)),
    "heartbeat of an unknown group": Case("JoinGroup, Consumer", "mallory", NO_GROUP, lambda n: heartbeat(n.unknown)),
    "commit of a closed group": Case(
        "JoinGroup, Consumer", "mallory", NO_GROUP, lambda n: commit(n.closed, n.mirrored)
    ),
    "commit of an unknown group": Case(
        "JoinGroup, Consumer", "mallory", NO_GROUP, lambda n: commit(n.unknown, n.mirrored)
    ),
    "offsets of a closed group": Case("OffsetFetch", "mallory", NO_GROUP, lambda n: fetch_offsets(n.closed)),
    "offsets of an unknown group": Case("OffsetFetch", "mallory", NO_GROUP, lambda n: fetch_offsets(n.unknown)),
    "a closed group described": Case("DescribeGroups and", "mallory", NO_GROUP, lambda n: describe_groups(n.closed)),
    "an unknown group described": Case("DescribeGroups and", "mallory", NO_GROUP, lambda n: describe_groups(n.unknown)),
    "a closed group described (KIP-848)": Case(
        "DescribeGroups and", "mallory", NO_GROUP, lambda n: describe_consumer_groups(n.closed)
    ),
    "a closed group deleted": Case("DeleteGroups and", "mallory", NO_GROUP, lambda n: delete_groups(n.closed)),
    "an unknown group deleted": Case("DeleteGroups and", "mallory", NO_GROUP, lambda n: delete_groups(n.unknown)),
    "offsets of a closed group deleted": Case(
        "DeleteGroups and", "mallory", NO_GROUP, lambda n: delete_offsets(n.closed, n.mirrored)
    ),
    "offsets of an unknown group deleted": Case(
        "DeleteGroups and", "mallory", NO_GROUP, lambda n: delete_offsets(n.unknown, n.mirrored)
    ),
    "delete topics by name": Case("DeleteTopics, ", "mallory", NO_TOPIC, lambda n: delete_topics(n.mirrored)),
    "delete topics": Case("DeleteTopics, ", "mallory", NO_TOPIC, lambda n: delete_topic_states(n.mirrored)),
    "delete records": Case("DeleteTopics, ", "mallory", NO_TOPIC, lambda n: delete_records(n.mirrored)),
    "create partitions": Case("DeleteTopics, ", "mallory", NO_TOPIC, lambda n: create_partitions(n.mirrored)),
    "alter configs": Case("DeleteTopics, ", "mallory", NO_TOPIC, lambda n: alter_configs(n.mirrored)),
    "incremental alter configs": Case("DeleteTopics, ", "mallory", NO_TOPIC, lambda n: incremental_alter(n.mirrored)),
    "create topics": Case("CreateTopics", "mallory", NO_TOPIC, lambda n: create(n.unmirrored)),
    "what passes": Case("what passes", "mallory", NO_GROUP, lambda n: describe_groups(n.unknown)),
}


def test_each_row_of_the_table_is_here() -> None:
    text = (Path(__file__).parents[3] / "docs" / "operate" / "rights.md").read_text(encoding="utf-8")
    table = text.split("## What is asked of the target")[1].split("## ")[0]
    rows = [row for row in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) if row != "API"]
    assert len(rows) > 10
    for row in rows:
        assert [case for case in CASES.values() if row.startswith(case.row)], row
    for case in CASES.values():
        assert [row for row in rows if row.startswith(case.row)], case.row


@pytest.mark.parametrize("name", CASES)
def test_who_lacks_the_right_is_told_what_the_broker_tells(lab: Lab, name: str) -> None:
    case = CASES[name]
    message, version = case.ask(lab.names)
    assert lab.directly(case.who, message, version) == {case.says}
    assert lab.through(case.who, message, version) == {case.says}


def test_who_may_begin_a_transaction_adds_no_topic_that_it_may_not_write(lab: Lab) -> None:
    names = lab.names
    client = RawClient(lab.scene.relay, "carol", client_id="carol")
    try:
        began = client.ask(*init(names.transaction))
    finally:
        client.close()
    assert not began.error_code
    own = began.producer_id, began.producer_epoch
    assert lab.through("carol", *add_partitions(names.transaction, names.mirrored, own)) == {NO_TOPIC}
    assert lab.directly("carol", *add_partitions(names.transaction, names.mirrored)) == {NO_TOPIC}


def test_nothing_has_happened_to_the_topic(lab: Lab) -> None:
    def records(bootstrap: str) -> int:
        (log,) = read_logs(bootstrap, lab.names.mirrored, 1)
        return len(log)

    before = records(lab.source.bootstrap)
    for name, case in CASES.items():
        if name.startswith(("produce", "delete", "create", "alter", "incremental")):
            lab.through(case.who, *case.ask(lab.names))
    assert lab.through("carol", *produce(lab.names.mirrored, lab.names.transaction))
    assert lab.through("alice", *produce(lab.names.mirrored)) == set()
    assert records(lab.source.bootstrap) == before + 1
    wait_until(lambda: records(inside(lab.scene.target)) == before + 1, what="the record is mirrored")


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.row.startswith(("DeleteTopics", "CreateTopics"))]
)
def test_who_has_the_right_is_told_that_it_is_a_mirror(lab: Lab, name: str) -> None:
    """Nobody else learns it."""
    assert lab.through("alice", *CASES[name].ask(lab.names)) == POLICY


def test_who_may_delete_a_group_that_waits_is_told_that_it_is_not_empty(lab: Lab) -> None:
    closed, topic = lab.names.closed, lab.names.mirrored
    lab.scene.acls.allow("alice", (GROUP, closed, DELETE))
    for message, version in (delete_groups(closed), delete_offsets(closed, topic)):
        wait_until(
            lambda message=message, version=version: (
                lab.through("alice", message, version)  # type: ignore[misc]
                == {int(ErrorCode.NON_EMPTY_GROUP)}
            ),
            what="the right to be known, and the refusal",
        )


def test_a_transaction_goes_on_whatever_others_ask_about_it(lab: Lab) -> None:
    names = lab.names
    settings: dict[str, Any] = {**login("alice", lab.scene.relay), "transactional.id": names.transaction, **QUIET}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(names.mirrored, value=b"mine", partition=0)
    producer.flush(30)
    for who in ("mallory", "carol"):
        for case in CASES.values():
            if case.who == who and ("Txn" in case.row or "transaction" in case.row):
                assert lab.through(who, *case.ask(names)) == {case.says}
    assert lab.through("mallory", *end(names.transaction, 0, 0)) == {NO_TRANSACTION}
    producer.commit_transaction(30)


def test_only_who_may_read_a_group_waits_at_its_gate(lab: Lab) -> None:
    names = lab.names
    lab.scene.acls.allow("carol", (GROUP, names.closed, DESCRIBE))
    waiting = RawClient(lab.scene.relay, "alice", client_id="alice")
    looking = RawClient(lab.scene.relay, "carol", client_id="carol")
    try:
        looking.send(*fetch_offsets(names.closed))
        waiting.send(*join(names.closed))
        assert lab.through("mallory", *join(names.closed)) == {NO_GROUP}

        def principals() -> list[str]:
            answer = lab.scene.gateway.api.get(f"/v3/links/{lab.link}/groups/{names.closed}").json()
            return [waiter["principal"] for waiter in answer["waiting"]]

        wait_until(lambda: principals() == ["alice"], what="alice waits at the gate, and nobody else")
    finally:
        waiting.close()
        looking.close()
