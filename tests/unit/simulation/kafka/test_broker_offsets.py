"""ListOffsets, OffsetForLeaderEpoch, Metadata, DescribeCluster and ApiVersions of the broker model."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from protocol.errors import ErrorCode
from protocol.messages import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
)
from tests.simulation.kafka.broker import CloseConnection
from tests.support.fakes.model_cluster import NOW_MS, ModelLab, batch_of


def offset(lab: ModelLab, timestamp: int, version: int = 7, committed: bool = False, **more: Any) -> Any:
    kind = ListOffsetsRequest.ListOffsetsTopic
    part = kind.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=more.get("epoch", -1), timestamp=timestamp, max_num_offsets=1
    )
    request = ListOffsetsRequest(
        replica_id=more.get("replica", -1),
        isolation_level=int(committed),
        topics=[kind(name="t", partitions=[part])],
        timeout_ms=0,
    )
    return lab.ask(request, version, broker=more.get("broker", 1)).topics[0].partitions[0]


def test_offsets_by_time():
    with ModelLab() as lab:
        lab.cluster.create_topic("t")
        for age in (30, 10, 20):
            lab.produce("t", 0, batch_of(b"a", b"b", timestamp_ms=NOW_MS - age))
        found = {timestamp: offset(lab, timestamp) for timestamp in (-1, -2, -3, NOW_MS - 30, NOW_MS - 15, NOW_MS)}
        assert {timestamp: part.offset for timestamp, part in found.items()} == {
            -1: 6,
            -2: 0,
            -3: 2,
            NOW_MS - 30: 0,
            NOW_MS - 15: 2,
            NOW_MS: -1,
        }
        assert found[-3].timestamp == found[NOW_MS - 15].timestamp == NOW_MS - 10
        assert found[-1].leader_epoch == 0
        assert offset(lab, -3, version=6).error_code == ErrorCode.UNSUPPORTED_VERSION
        lab.cluster.partition("t", 0).delete_records(3)
        assert [offset(lab, timestamp).offset for timestamp in (-2, 0)] == [3, 3]


def test_the_debugging_replica_id_sees_the_end_of_the_log():
    with ModelLab(brokers=3) as lab:
        lab.cluster.create_topic("t", 1, 3)
        partition = lab.cluster.partition("t", 0)
        partition.append(partition.best, batch_of(b"b"))
        seen = {replica: offset(lab, -1, broker=partition.leader_id, replica=replica).offset for replica in (-1, -2)}
        assert seen == {-1: 0, -2: 1}
        follower = next(number for number in partition.replicas if number != partition.leader_id)
        assert offset(lab, -1, broker=follower).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert offset(lab, -1, broker=follower, replica=-2).error_code == 0


def test_the_end_for_readers_of_committed_records_is_the_last_stable_offset():
    with ModelLab() as lab:
        partition = lab.cluster.create_topic("t").partitions[0]
        lab.produce("t", 0, batch_of(b"a"))
        partition.append(partition.best, batch_of(b"b", producer_id=1, epoch=0, sequence=0, transactional=True))
        assert [offset(lab, -1, committed=committed).offset for committed in (False, True)] == [2, 1]
        assert [offset(lab, NOW_MS, committed=committed).offset for committed in (False, True)] == [0, 0]


def test_a_new_leader_has_no_latest_offset_until_its_high_watermark_is_in_its_epoch():
    with ModelLab(brokers=2) as lab:
        lab.cluster.create_topic("t", 1, 2, assignments=[[1, 2]])
        lab.sleep(1)
        lab.produce("t", 0, batch_of(b"a"))
        assert offset(lab, -1, broker=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        lab.cluster.kill_broker(1)
        lab.cluster.partition("t", 0).replicas[2].log.high_watermark = 0
        lab.cluster.move_leader("t", 0, to=2)
        lab.sleep(0.1)
        assert offset(lab, -1, broker=2).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert offset(lab, -1, broker=2, version=4).error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert offset(lab, -2, broker=2).offset == 0
        lab.sleep(12)
        assert offset(lab, -1, broker=2).offset == 1
        assert offset(lab, -1, broker=2, epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert offset(lab, -1, broker=2, epoch=9).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(("epoch", "found"), [(0, (0, 2)), (1, (0, 2)), (2, (2, 3)), (3, (-1, -1))])
def test_where_an_epoch_ended(epoch: int, found: tuple[int, int]):
    with ModelLab(brokers=2) as lab:
        lab.cluster.create_topic("t", 1, 2, assignments=[[1, 2]])
        lab.sleep(1)
        lab.produce("t", 0, batch_of(b"a", b"b"))
        for leader in (2, 1):
            lab.cluster.move_leader("t", 0, to=leader)
            lab.sleep(1)
        lab.produce("t", 0, batch_of(b"c"))
        kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        part = kind.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[kind(topic="t", partitions=[part])])
        answer = lab.ask(request, 4).topics[0].partitions[0]
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, *found)


def test_metadata_by_name_by_id_and_of_all():
    with ModelLab(brokers=3) as lab:
        topic = lab.cluster.create_topic("t", 2, 3)
        lab.sleep(1)
        kind = MetadataRequest.MetadataRequestTopic
        everything = lab.ask(MetadataRequest(topics=None), 12)
        assert [broker.node_id for broker in everything.brokers] == [1, 2, 3]
        assert [(found.name, found.topic_id, len(found.partitions)) for found in everything.topics] == [
            ("t", topic.id, 2)
        ]
        asked = [kind(topic_id=None, name="t"), kind(topic_id=None, name="u"), kind(topic_id=None, name="no good")]
        codes = {found.name: found.error_code for found in lab.ask(MetadataRequest(topics=asked), 9).topics}
        assert codes == {
            "t": 0,
            "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "no good": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        by_id = lab.ask(
            MetadataRequest(topics=[kind(topic_id=topic.id, name=None), kind(topic_id=UUID(int=5), name=None)]), 12
        )
        assert sorted((found.error_code, found.name) for found in by_id.topics if found.name) == [(0, "t")]
        assert [found.error_code for found in by_id.topics if not found.name] == [ErrorCode.UNKNOWN_TOPIC_ID]
        assert lab.cluster.topic_names() == ["t"], "nothing is created by being asked for"


def test_a_broker_tells_the_leader_that_it_has_heard_of():
    with ModelLab(brokers=3) as lab:
        lab.cluster.create_topic("t", 1, 3, assignments=[[1, 2, 3]])
        lab.sleep(1)
        lab.cluster.pause_broker(3)
        lab.cluster.move_leader("t", 0, to=2)
        lab.sleep(1)

        def leader(broker: int) -> tuple[int, int]:
            part = lab.ask(MetadataRequest(topics=None), 12, broker=broker).topics[0].partitions[0]
            return part.leader_id, part.leader_epoch

        assert (leader(1), leader(2)) == ((2, 1), (2, 1))
        lab.cluster.wake_broker(3)
        assert leader(3) == (1, 0)
        lab.sleep(1)
        assert leader(3) == (2, 1)


def test_describe_cluster_shows_who_is_alive():
    with ModelLab(brokers=3) as lab:
        lab.cluster.kill_broker(2)
        lab.sleep(12)
        answer = lab.ask(DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=False), 1)
        assert [broker.broker_id for broker in answer.brokers] == [1, 3]
        assert answer.cluster_id == lab.cluster.id
        everybody = lab.ask(DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=True), 2)
        assert [(broker.broker_id, broker.is_fenced) for broker in everybody.brokers] == [
            (1, False),
            (3, False),
            (2, True),
        ]


@pytest.mark.parametrize(("version", "produce", "fetch"), [("3.9.1", (0, 11), (0, 17)), ("4.3.1", (0, 13), (4, 18))])
def test_api_versions_are_those_of_the_release(version: str, produce: tuple[int, int], fetch: tuple[int, int]):
    with ModelLab(version=version) as lab:
        asked = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in lab.ask(asked, 3).api_keys}
        assert (ranges[0], ranges[1]) == (produce, fetch)
        refused = lab.run(lab.cluster.brokers[1].handle(b"\0\x12\0\x09\0\0\0\x07\xff\xff\0", lab.session))
        assert refused[4:6] == b"\0\x23"


def test_a_version_that_is_not_served_closes_the_connection():
    with ModelLab(version="4.3.1") as lab:
        with pytest.raises(CloseConnection, match="ListOffsets v0 is not served by 4.3.1"):
            lab.run(lab.cluster.brokers[1].handle(b"\0\x02\0\0\0\0\0\x07\xff\xff", lab.session))
        with pytest.raises(CloseConnection):
            lab.run(lab.cluster.brokers[1].handle(b"\x03\xe8\0\0\0\0\0\x07\xff\xff", lab.session))
        assert [entry.peer for entry in lab.cluster.brokers[1].refused] == ["client", "client"]
