"""Coordinators of the broker model that move, stop and die: what a new one knows, and what an old one still says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from tests.support.fakes.model_cluster import ModelLab, batch_of

SESSION_MS = 6000
TXN = "txn"


@pytest.fixture
def lab() -> Iterator[ModelLab]:
    with ModelLab(brokers=3, configs={"group.initial.rebalance.delay.ms": "0"}) as lab:
        lab.run(lab.cluster.start())
        lab.cluster.create_topic("t", 2, 3)
        yield lab


def group_at(lab: ModelLab) -> int:
    """The broker that coordinates group g."""
    return lab.cluster.coordinator("group", "g").leader_id


def txn_at(lab: ModelLab) -> int:
    """The broker that coordinates the transactional id."""
    return lab.cluster.coordinator("transaction", TXN).leader_id


def stable_member(lab: ModelLab, session_ms: int = SESSION_MS) -> str:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=session_ms, rebalance_timeout_ms=6000, member_id="", protocol_type="consumer",
        protocols=[protocol],
    )  # fmt: skip
    joined = lab.ask(request, 3, group_at(lab))
    assert joined.error_code == 0
    share = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id, assignments=[share])
    assert lab.ask(request, 2, group_at(lab)).assignment == b"all"
    return str(joined.member_id)


def heartbeat(lab: ModelLab, member_id: str, broker: int) -> int:
    answer = lab.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id), 2, broker)
    return int(answer.error_code)


def commit(lab: ModelLab, member_id: str, offset: int) -> int:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    part = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=1, member_id=member_id, topics=[kind(name="t", partitions=[part])]
    )
    return int(lab.ask(request, 6, group_at(lab)).topics[0].partitions[0].error_code)


def fetched(lab: ModelLab, *, stable: bool = False) -> tuple[int, int]:
    """(error, offset) of t-0."""
    kind = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(group_id="g", topics=[kind], require_stable=stable)
    found = lab.ask(request, 7, group_at(lab)).topics[0].partitions[0]
    return found.error_code, found.committed_offset


def begun(lab: ModelLab, timeout_ms: int = 60_000) -> tuple[int, int]:
    """An open transaction with a record in t-0: its producer."""
    request = InitProducerIdRequest(transactional_id=TXN, transaction_timeout_ms=timeout_ms)
    answer = lab.ask(request, 1, txn_at(lab))
    producer = (answer.producer_id, answer.producer_epoch)
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=[0])
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TXN, v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1], v3_and_below_topics=[topic],
    )  # fmt: skip
    added = lab.ask(request, 3, txn_at(lab)).results_by_topic_v3_and_below[0].results_by_partition[0]
    assert added.partition_error_code == 0
    batch = batch_of(b"v", producer_id=producer[0], epoch=producer[1], sequence=0, transactional=True)
    leader = lab.cluster.partition("t", 0).leader_id
    assert lab.produce("t", 0, batch, transactional_id=TXN, broker=leader).error_code == 0
    return producer


def end(lab: ModelLab, producer: tuple[int, int], *, commits: bool = True) -> int:
    request = EndTxnRequest(
        transactional_id=TXN, producer_id=producer[0], producer_epoch=producer[1], committed=commits
    )
    return int(lab.ask(request, 3, txn_at(lab)).error_code)


def state(lab: ModelLab) -> str:
    answer = lab.ask(DescribeTransactionsRequest(transactional_ids=[TXN]), 0, txn_at(lab))
    return str(answer.transaction_states[0].transaction_state)


def stable_end(lab: ModelLab) -> Any:
    return lab.cluster.partition("t", 0).best.log.last_stable_offset


def test_a_debugging_client_is_told_the_end_of_the_leaders_log(lab: ModelLab) -> None:
    lab.cluster.lag_followers("t", 0, 5)
    leader = lab.cluster.partition("t", 0).leader_id
    assert lab.produce("t", 0, batch_of(b"v"), acks=1, broker=leader).error_code == 0
    part = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part])
    offsets = []
    for replica in (-1, -2):
        request = ListOffsetsRequest(replica_id=replica, isolation_level=1, topics=[topic])
        offsets.append(lab.ask(request, 4, leader).topics[0].partitions[0].offset)
    assert offsets == [0, 1]


def test_a_moved_group_keeps_members_and_offsets(lab: ModelLab) -> None:
    member = stable_member(lab)
    assert commit(lab, member, 5) == 0
    old = group_at(lab)
    lab.cluster.move_coordinator("g")
    new = group_at(lab)
    assert new != old
    lab.sleep(0.1)
    assert heartbeat(lab, member, old) == ErrorCode.NOT_COORDINATOR
    assert heartbeat(lab, member, new) == 0
    assert fetched(lab) == (0, 5)


def test_a_new_coordinator_first_loads(lab: ModelLab) -> None:
    member = stable_member(lab)
    new = lab.cluster.move_coordinator("g")
    assert new is not None
    heard = set()
    for _ in range(60):
        heard.add(commit(lab, member, 1))
        lab.sleep(0.002)
    assert heard == {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0}


def test_a_coordinator_that_leads_again_before_it_heard_otherwise_goes_on(lab: ModelLab) -> None:
    member, producer, old = stable_member(lab), begun(lab), (group_at(lab), txn_at(lab))
    for key, kind, at in (("g", "group", old[0]), (TXN, "transaction", old[1])):
        partition = lab.cluster.coordinator(kind, key)
        lab.cluster.move_coordinator(key, kind)
        lab.cluster.move_leader(partition.topic.name, partition.index, at)
    assert (group_at(lab), txn_at(lab)) == old
    lab.sleep(0.2)
    assert commit(lab, member, 5) == 0
    assert end(lab, producer) == 0


def test_a_rebalance_under_way_is_forgotten_by_a_move(lab: ModelLab) -> None:
    member = stable_member(lab)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=SESSION_MS, rebalance_timeout_ms=6000, member_id="", protocol_type="consumer",
        protocols=[protocol],
    )  # fmt: skip
    waiting = lab.loop.create_task(lab.asked(request, 3, group_at(lab)))
    lab.sleep(0.01)
    assert heartbeat(lab, member, group_at(lab)) == ErrorCode.REBALANCE_IN_PROGRESS
    lab.cluster.move_coordinator("g")
    assert lab.run(waiting).error_code == ErrorCode.NOT_COORDINATOR
    lab.sleep(0.1)
    assert heartbeat(lab, member, group_at(lab)) == 0


def test_a_coordinator_that_was_paused_answers_from_memory_for_a_moment(lab: ModelLab) -> None:
    member = stable_member(lab, session_ms=60_000)
    old = group_at(lab)
    lab.cluster.pause_broker(old)
    lab.sleep(12)
    new = group_at(lab)
    assert new != old
    gone = LeaveGroupRequest.MemberIdentity(member_id=member, group_instance_id=None)
    assert lab.ask(LeaveGroupRequest(group_id="g", members=[gone]), 3, new).members[0].error_code == 0
    assert heartbeat(lab, member, new) == ErrorCode.UNKNOWN_MEMBER_ID
    lab.cluster.wake_broker(old)
    assert heartbeat(lab, member, old) == 0
    lab.sleep(0.2)
    assert heartbeat(lab, member, old) == ErrorCode.NOT_COORDINATOR


def test_members_of_a_killed_coordinator_have_one_session_at_the_next(lab: ModelLab) -> None:
    member = stable_member(lab)
    lab.cluster.kill_broker(group_at(lab))
    lab.sleep(10)
    assert heartbeat(lab, member, group_at(lab)) == 0
    lab.sleep(SESSION_MS / 1000 + 0.1)
    assert heartbeat(lab, member, group_at(lab)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_coordinator_ends_the_transaction_that_the_old_one_began_to_end(lab: ModelLab) -> None:
    producer = begun(lab)
    assert end(lab, producer) == 0
    lab.cluster.move_coordinator(TXN, "transaction")
    assert stable_end(lab) == 0
    lab.sleep(0.3)
    assert state(lab) == "CompleteCommit"
    assert stable_end(lab) > 1  # both coordinators may have written a marker
    assert end(lab, producer) == 0


def test_markers_wait_for_the_partitions_leader(lab: ModelLab) -> None:
    producer = begun(lab)
    leader, at = lab.cluster.partition("t", 0).leader_id, txn_at(lab)
    if leader == at:
        lab.cluster.move_leader("t", 0)
        lab.sleep(0.1)
        leader = lab.cluster.partition("t", 0).leader_id
    lab.cluster.pause_broker(leader)
    assert end(lab, producer) == 0
    lab.sleep(1)
    assert state(lab) == "PrepareCommit"
    assert end(lab, producer) == ErrorCode.CONCURRENT_TRANSACTIONS
    lab.cluster.wake_broker(leader)
    lab.sleep(1)
    assert state(lab) == "CompleteCommit"


def test_a_marker_that_its_leader_alone_had_is_written_again(lab: ModelLab) -> None:
    producer = begun(lab)
    lab.sleep(1)
    partition = lab.cluster.partition("t", 0)
    if partition.leader_id == txn_at(lab):
        lab.cluster.move_leader("t", 0)
        lab.sleep(0.1)
    lab.cluster.lag_followers("t", 0, 5)
    open_at, end_before = stable_end(lab), lab.cluster.log_range("t", 0)[1]
    assert end(lab, producer) == 0
    lab.sleep(0.1)
    assert lab.cluster.log_range("t", 0)[1] == end_before + 1
    assert state(lab) == "PrepareCommit"
    lab.cluster.move_leader("t", 0, lose=1)
    lab.sleep(1)
    assert state(lab) == "CompleteCommit"
    assert stable_end(lab) > open_at


def test_an_open_transaction_is_aborted_when_its_time_is_over(lab: ModelLab) -> None:
    producer = begun(lab, timeout_ms=1000)
    lab.sleep(25)
    assert state(lab) == "CompleteAbort"
    assert stable_end(lab) == 2
    assert end(lab, producer) == ErrorCode.PRODUCER_FENCED


def test_a_second_producer_aborts_the_firsts_transaction(lab: ModelLab) -> None:
    producer = begun(lab)
    request = InitProducerIdRequest(transactional_id=TXN, transaction_timeout_ms=60_000)
    assert lab.ask(request, 1, txn_at(lab)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    lab.sleep(0.1)
    answer = lab.ask(request, 1, txn_at(lab))
    assert (answer.error_code, answer.producer_id) == (0, producer[0])
    assert answer.producer_epoch == producer[1] + 2
    assert end(lab, producer) == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_of_a_transaction_count_when_it_commits(lab: ModelLab, commits: bool) -> None:
    producer = begun(lab)
    request = AddOffsetsToTxnRequest(
        transactional_id=TXN, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
    )
    assert lab.ask(request, 1, txn_at(lab)).error_code == 0
    kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    part = kind.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id=TXN, group_id="g", producer_id=producer[0], producer_epoch=producer[1],
        topics=[kind(name="t", partitions=[part])],
    )  # fmt: skip
    assert lab.ask(request, 2, group_at(lab)).topics[0].partitions[0].error_code == 0
    assert fetched(lab) == (0, -1)
    assert fetched(lab, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    lab.cluster.move_coordinator("g")
    lab.sleep(0.1)
    assert fetched(lab, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert end(lab, producer, commits=commits) == 0
    lab.sleep(0.1)
    assert fetched(lab, stable=True) == (0, 7 if commits else -1)
