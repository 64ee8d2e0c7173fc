"""Streams groups (KIP-1071) from one cluster to another: the gate, the offsets, and the topics of the topology.

The member is one of ours, which says what Kafka Streams says with `group.protocol=streams`; it has no state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.kafka.cluster import Cluster
from gateway.kafka.commits import committed_offsets
from gateway.kafka.groups import describe_group
from gateway.kafka.routed import on_coordinator
from protocol.errors import ErrorCode
from protocol.messages import OffsetCommitRequest, StreamsGroupHeartbeatRequest
from tests.support.brokers.logs import create_topic
from tests.support.gateways.group_sides import GroupSides, group_sides
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

JOINS, LEAVES = 0, -1
AT = 7
"""The offset that the member has committed on the source."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupSides]:
    with group_sides(tmp_path_factory.mktemp("streams"), "streams") as sides:
        yield sides


def heartbeat(group: str, topic: str, epoch: int, changelog: str) -> Any:
    """Of a member with one task, which counts: so it has a changelog."""
    topology = StreamsGroupHeartbeatRequest.Topology
    part = topology.Subtopology
    kept = part.TopicInfo(name=changelog, partitions=0, replication_factor=1, topic_configs=[])
    none: dict[str, Any] = {
        name: []
        for name in ("source_topic_regex", "repartition_sink_topics", "repartition_source_topics", "copartition_groups")
    }
    joins = epoch == JOINS
    tasks: dict[str, Any] = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"), () if joins else None)
    return StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        member_epoch=epoch,
        endpoint_information_epoch=0,
        instance_id=None,
        rack_id=None,
        rebalance_timeout_ms=10_000 if joins else -1,
        topology=topology(
            epoch=0,
            subtopologies=[part(subtopology_id="0", source_topics=[topic], state_changelog_topics=[kept], **none)],
        )
        if joins
        else None,
        process_id="p" if joins else None,
        user_endpoint=None,
        client_tags=[] if joins else None,
        task_offsets=None,
        task_end_offsets=None,
        shutdown_application=False,
        **tasks,
    )


async def beat(cluster: Cluster, group: str, topic: str, epoch: int, *, patiently: bool = True) -> Any:
    """One heartbeat; again while the coordinator loads, or the gate is closed."""
    request = heartbeat(group, topic, epoch, f"{group}-changelog")
    return await on_coordinator(
        cluster, group, request, lambda answer: [answer.error_code] if patiently else [], timeout_s=60.0
    )


async def read_on_source(cluster: Cluster, group: str, topic: str) -> None:
    """Join, commit as the member, and leave."""
    joined = await beat(cluster, group, topic, JOINS)
    assert not joined.error_code, joined
    part = OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition
    committed = part(partition_index=0, committed_offset=AT, committed_leader_epoch=-1, committed_metadata="")
    commit = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=joined.member_epoch,
        member_id="m",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[committed])],
    )
    answer = await on_coordinator(cluster, group, commit, lambda answer: [], cap=9, timeout_s=60.0)
    assert not answer.topics[0].partitions[0].error_code, answer


def test_a_streams_group_waits_and_reads_on(lab: GroupSides, topic: str) -> None:
    group = f"{topic}-app"
    changelog = f"{group}-changelog"
    for name in (topic, changelog):
        create_topic(lab.source.bootstrap, name, partitions=1)
    lab.ask(lab.source.bootstrap, lambda cluster: read_on_source(cluster, group, topic))
    lab.mirrored(topic)

    held = lab.ask(lab.gateway.bootstrap, lambda cluster: beat(cluster, group, topic, JOINS, patiently=False))
    assert held.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    shown = lab.group(group)
    assert (shown["group_type"], shown["state"], shown["topology_epoch"]) == ("STREAMS", "ACTIVE", 0)

    lab.ask(lab.source.bootstrap, lambda cluster: beat(cluster, group, topic, LEAVES))

    def refused() -> str:
        answer = lab.gateway.api.post(f"/v3/links/west/groups/{group}:promote", json={})
        assert not answer.is_success, answer.text
        return str(answer.json()["message"])

    wait_until(lambda: "member(s) on the source" not in refused(), 60, what="the member to have left")
    why = refused()
    print(why)  # noqa: T201 - what an operator sees
    assert f"topics of its topology are not mirrored ({changelog})" in why
    lab.mirrored(changelog)
    wait_until(
        lambda: lab.gateway.api.post(f"/v3/links/west/groups/{group}:promote", json={}).is_success, 60, what="a promote"
    )

    joined = lab.ask(lab.gateway.bootstrap, lambda cluster: beat(cluster, group, topic, JOINS))
    assert (joined.error_code, joined.member_epoch > 0) == (0, True), joined
    view = lab.ask(lab.target.bootstrap, lambda cluster: describe_group(cluster, group))
    assert (view.type, len(view.members)) == ("streams", 1)
    offsets = lab.ask(lab.target.bootstrap, lambda cluster: committed_offsets(cluster, group))
    assert {key: one.offset for key, one in offsets.items()} == {(topic, 0): AT}
    lab.ask(lab.gateway.bootstrap, lambda cluster: beat(cluster, group, topic, LEAVES))
