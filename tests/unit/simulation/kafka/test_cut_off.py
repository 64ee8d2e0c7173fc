"""A broker of the model that has lost its cluster, and not its clients: it coordinates groups from memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocol.errors import ErrorCode
from protocol.messages import (
    DescribeConfigsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tests.support.fakes.model_cluster import ModelLab

_FENCED_S = 10.0
_WRITTEN_S = 5.0


@pytest.fixture
def lab() -> Iterator[ModelLab]:
    with ModelLab(brokers=3, configs={"group.initial.rebalance.delay.ms": "0"}) as lab:
        lab.run(lab.cluster.start())
        lab.cluster.create_topic("t", 1, 3)
        yield lab


def coordinator(lab: ModelLab) -> int:
    return lab.cluster.coordinator("group", "g").leader_id


def joined(lab: ModelLab, at: int) -> str:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=60_000, rebalance_timeout_ms=6000, member_id="", protocol_type="consumer",
        protocols=[protocol],
    )  # fmt: skip
    answer = lab.ask(request, 3, at)
    assert answer.error_code == 0
    return str(answer.member_id)


def synced(lab: ModelLab, member: str, at: int) -> int:
    share = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"all")
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=member, assignments=[share])
    return int(lab.ask(request, 2, at).error_code)


def heartbeat(lab: ModelLab, member: str, at: int) -> int:
    return int(lab.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id=member), 2, at).error_code)


def committed(lab: ModelLab, member: str, offset: int, at: int) -> int:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    part = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=1, member_id=member, topics=[kind(name="t", partitions=[part])]
    )
    return int(lab.ask(request, 6, at).topics[0].partitions[0].error_code)


def fetched(lab: ModelLab, at: int) -> int:
    kind = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(group_id="g", topics=[kind], require_stable=True)
    return int(lab.ask(request, 7, at).topics[0].partitions[0].committed_offset)


def told(lab: ModelLab, at: int) -> int:
    return int(lab.ask(FindCoordinatorRequest(key="g", key_type=0), 1, at).node_id)


def test_it_answers_heartbeats_and_writes_no_commit(lab: ModelLab) -> None:
    old = coordinator(lab)
    member = joined(lab, old)
    assert synced(lab, member, old) == 0
    assert committed(lab, member, 5, old) == 0
    lab.cluster.cut_broker_off(old, groups=True)
    assert heartbeat(lab, member, old) == 0
    asked_at = lab.loop.time()
    assert committed(lab, member, 6, old) == ErrorCode.REQUEST_TIMED_OUT
    assert lab.loop.time() - asked_at == pytest.approx(_WRITTEN_S)
    lab.sleep(_FENCED_S)

    new = coordinator(lab)
    assert new != old
    assert committed(lab, member, 9, new) == 0
    assert (heartbeat(lab, member, old), heartbeat(lab, member, new)) == (0, 0)
    assert (fetched(lab, old), fetched(lab, new)) == (5, 9)
    assert (told(lab, old), told(lab, new)) == (old, new)

    lab.cluster.rejoin_broker(old)
    lab.sleep(1.0)
    assert heartbeat(lab, member, old) == ErrorCode.NOT_COORDINATOR
    assert told(lab, old) == new


def test_a_generation_that_it_begins_is_none(lab: ModelLab) -> None:
    old = coordinator(lab)
    lab.cluster.cut_broker_off(old, groups=True)
    member = joined(lab, old)
    assert synced(lab, member, old) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    lab.sleep(_FENCED_S)
    assert heartbeat(lab, member, coordinator(lab)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_what_it_was_asked_to_write_is_written_when_it_is_back_in_time(lab: ModelLab) -> None:
    at = coordinator(lab)
    member = joined(lab, at)
    assert synced(lab, member, at) == 0
    lab.cluster.cut_broker_off(at, groups=True)
    lab.loop.call_later(1.0, lab.cluster.rejoin_broker, at)
    assert committed(lab, member, 6, at) == 0
    assert fetched(lab, at) == 6


def test_a_broker_that_hears_of_no_configs_tells_those_of_before(lab: ModelLab) -> None:
    late = lab.cluster.brokers[2]
    late.late_configs = True
    lab.cluster.alter_topic("t", {"retention.ms": "77"})
    lab.sleep(5.0)

    def retention(at: int) -> str:
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=2, resource_name="t", configuration_keys=["retention.ms"]
        )
        answer = lab.ask(DescribeConfigsRequest(resources=[resource]), 1, at)
        return str(answer.results[0].configs[0].value)

    assert (retention(1), retention(2)) == ("77", "604800000")
    lab.cluster.controller.tell_configs(late)
    assert retention(2) == "77"
