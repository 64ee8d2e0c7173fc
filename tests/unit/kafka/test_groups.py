"""Group descriptions from scripted coordinators; real groups are in tests/integration/net."""

import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.kafka.cluster import BrokerError, ClusterUnavailable
from gateway.kafka.groups import (
    DEAD,
    GroupListing,
    GroupView,
    MemberView,
    describe_group,
    list_groups,
    remove_any_members,
)
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DescribeGroupsResponse,
    LeaveGroupResponse,
    ListGroupsResponse,
    ShareGroupDescribeResponse,
    StreamsGroupDescribeResponse,
)
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import HANG_UP, Request
from tests.support.fakes.fake_cluster import FakeCluster

CONSUMER = ApiKey.CONSUMER_GROUP_DESCRIBE
CLASSIC = ApiKey.DESCRIBE_GROUPS


@pytest.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(2) as cluster:
        cluster.coordinators["g"] = 2
        cluster.on(CONSUMER, lambda _: consumer(error_code=int(ErrorCode.GROUP_ID_NOT_FOUND)))
        cluster.on(CLASSIC, lambda _: classic())
        cluster.on(ApiKey.SHARE_GROUP_DESCRIBE, lambda _: share(error_code=int(ErrorCode.GROUP_ID_NOT_FOUND)))
        cluster.on(ApiKey.STREAMS_GROUP_DESCRIBE, lambda _: streams(error_code=int(ErrorCode.GROUP_ID_NOT_FOUND)))
        yield cluster


def consumer(**fields: Any) -> Any:
    defaults: dict[str, Any] = {
        "error_code": 0,
        "error_message": None,
        "group_id": "g",
        "group_state": "Stable",
        "group_epoch": 1,
        "assignment_epoch": 1,
        "assignor_name": "uniform",
        "members": [],
    }
    group = ConsumerGroupDescribeResponse.DescribedGroup(**defaults | fields)
    return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=[group])


def classic(**fields: Any) -> Any:
    defaults: dict[str, Any] = {
        "error_code": 0,
        "error_message": None,
        "group_id": "g",
        "group_state": "Stable",
        "protocol_type": "consumer",
        "protocol_data": "range",
        "members": [],
    }
    group = DescribeGroupsResponse.DescribedGroup(**defaults | fields)
    return DescribeGroupsResponse(throttle_time_ms=0, groups=[group])


def share(**fields: Any) -> Any:
    defaults: dict[str, Any] = {
        "error_code": 0,
        "error_message": None,
        "group_id": "g",
        "group_state": "Stable",
        "group_epoch": 1,
        "assignment_epoch": 1,
        "assignor_name": "simple",
        "members": [],
    }
    return ShareGroupDescribeResponse(groups=[ShareGroupDescribeResponse.DescribedGroup(**defaults | fields)])


def streams(**fields: Any) -> Any:
    defaults: dict[str, Any] = {
        "error_code": 0,
        "error_message": None,
        "group_id": "g",
        "group_state": "Stable",
        "group_epoch": 1,
        "assignment_epoch": 1,
        "topology": None,
        "members": [],
    }
    return StreamsGroupDescribeResponse(groups=[StreamsGroupDescribeResponse.DescribedGroup(**defaults | fields)])


def classic_member(metadata: bytes, assignment: bytes) -> Any:
    return DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/10.0.0.1",
        member_metadata=metadata,
        member_assignment=assignment,
    )


def name(topic: str) -> bytes:
    return struct.pack(">h", len(topic)) + topic.encode()


SUBSCRIPTION = struct.pack(">hi", 1, 2) + name("a") + name("b") + struct.pack(">ii", -1, 0)
ASSIGNMENT = struct.pack(">hi", 1, 1) + name("a") + struct.pack(">iiii", 2, 0, 3, -1)


async def test_members_of_a_classic_group(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(CLASSIC, lambda _: classic(members=[classic_member(SUBSCRIPTION, ASSIGNMENT)]))
    cluster = await client(fake.bootstrap)

    group = await describe_group(cluster, "g")

    (member,) = group.members
    assert (group.state, group.type, group.protocol_type) == ("Stable", "classic", "consumer")
    assert (member.client_id, member.host, member.instance_id) == ("c", "10.0.0.1", "i")
    assert member.subscribed == {"a", "b"}
    assert member.assigned == {"a": (0, 3)}
    assert group.topics == {"a", "b"}
    assert len(fake.brokers[2].asked(CLASSIC)) == 1
    assert not fake.brokers[1].asked(CLASSIC)


@pytest.mark.parametrize("junk", [b"\xff", b"\0\1\xff\xff\xff\xff", b"\0\1\x7f\xff\xff\xff", SUBSCRIPTION[:9]])
async def test_members_whose_metadata_cannot_be_read_are_still_members(
    fake: FakeCluster, client: OpenCluster, junk: bytes
) -> None:
    fake.on(CLASSIC, lambda _: classic(members=[classic_member(junk, junk)]))
    cluster = await client(fake.bootstrap)

    (member,) = (await describe_group(cluster, "g")).members

    assert member.topics == frozenset()


async def test_other_protocols_are_not_read_as_consumers(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(CLASSIC, lambda _: classic(protocol_type="connect", members=[classic_member(SUBSCRIPTION, ASSIGNMENT)]))
    cluster = await client(fake.bootstrap)

    group = await describe_group(cluster, "g")

    assert (group.protocol_type, group.topics) == ("connect", frozenset())


async def test_members_of_a_kip_848_group(fake: FakeCluster, client: OpenCluster) -> None:
    described = ConsumerGroupDescribeResponse.DescribedGroup
    assignment_class = described.Member.Assignment
    parts = assignment_class.TopicPartitions
    assignment = assignment_class(
        topic_partitions=[parts(topic_id=fake.topic_id("a"), topic_name="a", partitions=[1, 2])]
    )
    member = described.Member(
        member_id="m",
        instance_id=None,
        rack_id=None,
        member_epoch=3,
        client_id="c",
        client_host="/10.0.0.1",
        subscribed_topic_names=["a", "b"],
        subscribed_topic_regex="x.*",
        assignment=assignment,
        target_assignment=assignment,
        member_type=1,
    )
    fake.on(CONSUMER, lambda _: consumer(members=[member]))
    cluster = await client(fake.bootstrap)

    group = await describe_group(cluster, "g")

    assert (group.state, group.type, group.protocol_type) == ("Stable", "consumer", "consumer")
    assert group.members[0].assigned == {"a": (1, 2)}
    assert group.members[0].subscribed == {"a", "b"}
    assert group.members[0].subscribed_regex == "x.*"
    assert not fake.asked(CLASSIC)


async def test_a_broker_without_kip_848(fake: FakeCluster, client: OpenCluster) -> None:
    for broker in fake.brokers.values():
        del broker.versions[CONSUMER]
    cluster = await client(fake.bootstrap)

    assert (await describe_group(cluster, "g")).type == "classic"


@pytest.mark.parametrize(
    "fields", [{"group_state": "Dead", "protocol_type": ""}, {"error_code": int(ErrorCode.GROUP_ID_NOT_FOUND)}]
)
async def test_a_group_that_does_not_exist_is_dead(
    fake: FakeCluster, client: OpenCluster, fields: dict[str, Any]
) -> None:
    fake.on(CLASSIC, lambda _: classic(**fields))
    cluster = await client(fake.bootstrap)

    group = await describe_group(cluster, "g")

    assert (group.state, group.members) == (DEAD, ())


async def test_a_group_that_may_not_be_seen(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(CONSUMER, lambda _: consumer(error_code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    cluster = await client(fake.bootstrap)

    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED") as caught:
        await describe_group(cluster, "g")
    assert caught.value.code == 30


async def test_a_coordinator_that_moved_is_found(fake: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(fake.bootstrap)
    await describe_group(cluster, "g")
    moved = int(ErrorCode.NOT_COORDINATOR)
    fake.coordinators["g"] = 1
    fake.brokers[2].handlers[CONSUMER] = lambda _: consumer(error_code=moved)

    assert (await describe_group(cluster, "g")).state == "Stable"
    assert len(fake.brokers[1].asked(CLASSIC)) == 1


async def test_a_coordinator_that_dies_is_replaced(fake: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(fake.bootstrap)
    await describe_group(cluster, "g")
    fake.coordinators["g"] = 1
    fake.hidden = {2}
    await fake.brokers[2].stop()

    assert (await describe_group(cluster, "g")).state == "Stable"


async def test_a_coordinator_that_goes_on_loading(fake: FakeCluster, client: OpenCluster) -> None:
    loading = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    fake.on(CONSUMER, lambda _: consumer(error_code=loading))
    cluster = await client(fake.bootstrap)

    with pytest.raises(ClusterUnavailable, match="group g: COORDINATOR_LOAD_IN_PROGRESS"):
        await describe_group(cluster, "g", timeout_s=0.2)
    assert len(fake.asked(ApiKey.FIND_COORDINATOR)) == 1


def listed(group: str, kind: str = "Classic", error: int = 0) -> Any:
    item = ListGroupsResponse.ListedGroup(
        group_id=group, protocol_type="consumer", group_state="Empty", group_type=kind
    )
    return ListGroupsResponse(throttle_time_ms=0, error_code=error, groups=[] if error else [item])


async def test_groups_are_listed_by_every_broker(fake: FakeCluster, client: OpenCluster) -> None:
    fake.brokers[1].handlers[ApiKey.LIST_GROUPS] = lambda _: listed("z", "Consumer")
    fake.brokers[2].handlers[ApiKey.LIST_GROUPS] = lambda _: listed("a")
    cluster = await client(fake.bootstrap)

    assert await list_groups(cluster) == (
        GroupListing("a", "consumer", "Empty", "classic"),
        GroupListing("z", "consumer", "Empty", "consumer"),
    )


async def test_a_broker_that_loads_its_groups_is_waited_for(fake: FakeCluster, client: OpenCluster) -> None:
    codes = [int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 2
    fake.brokers[1].handlers[ApiKey.LIST_GROUPS] = lambda _: listed("z", error=codes.pop() if codes else 0)
    fake.brokers[2].handlers[ApiKey.LIST_GROUPS] = lambda _: listed("a")
    cluster = await client(fake.bootstrap)

    assert [item.group for item in await list_groups(cluster)] == ["a", "z"]


async def test_a_list_that_would_not_be_whole_is_an_error(fake: FakeCluster, client: OpenCluster) -> None:
    def hang_up(_: Request) -> Any:
        return HANG_UP

    fake.brokers[1].handlers[ApiKey.LIST_GROUPS] = hang_up
    fake.brokers[2].handlers[ApiKey.LIST_GROUPS] = lambda _: listed("a")
    cluster = await client(fake.bootstrap)

    with pytest.raises(ClusterUnavailable):
        await list_groups(cluster, timeout_s=0.5)


async def test_a_broker_that_refuses_to_list(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(ApiKey.LIST_GROUPS, lambda _: listed("a", error=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)))
    cluster = await client(fake.bootstrap)

    with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
        await list_groups(cluster)


async def test_a_share_group(fake: FakeCluster, client: OpenCluster) -> None:
    kind = ShareGroupDescribeResponse.DescribedGroup
    member = kind.Member(
        member_id="m",
        rack_id=None,
        member_epoch=1,
        client_id="c",
        client_host="/10.0.0.1",
        subscribed_topic_names=["orders"],
        assignment=kind.Member.Assignment(
            topic_partitions=[
                kind.Member.Assignment.TopicPartitions(topic_id=None, topic_name="orders", partitions=[0, 2])
            ]
        ),
    )
    fake.on(CLASSIC, lambda _: classic(error_code=int(ErrorCode.GROUP_ID_NOT_FOUND)))
    fake.on(ApiKey.SHARE_GROUP_DESCRIBE, lambda _: share(members=[member]))
    found = await describe_group(await client(fake.bootstrap), "g")
    assert (found.type, found.protocol_type, found.state) == ("share", "share", "Stable")
    (read,) = found.members
    assert (read.host, read.topics, dict(read.assigned)) == ("10.0.0.1", frozenset({"orders"}), {"orders": (0, 2)})


async def test_a_streams_group_reads_what_its_topology_does(fake: FakeCluster, client: OpenCluster) -> None:
    kind = StreamsGroupDescribeResponse.DescribedGroup
    part, info = kind.Topology.Subtopology, kind.Topology.Subtopology.TopicInfo
    between, kept = (
        info(name=f"app-counts-{name}", partitions=1, replication_factor=1, topic_configs=[])
        for name in ("repartition", "changelog")
    )
    topology = kind.Topology(
        epoch=3,
        subtopologies=[
            part(
                subtopology_id="0",
                source_topics=["orders"],
                repartition_sink_topics=["app-counts-repartition"],
                state_changelog_topics=[],
                repartition_source_topics=[],
            ),
            part(
                subtopology_id="1",
                source_topics=[],
                repartition_sink_topics=[],
                state_changelog_topics=[kept],
                repartition_source_topics=[between],
            ),
        ],
    )
    none = kind.Member.Assignment(active_tasks=[], standby_tasks=[], warmup_tasks=[])
    member = kind.Member(
        member_id="m",
        member_epoch=1,
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/10.0.0.1",
        topology_epoch=3,
        process_id="p",
        user_endpoint=None,
        client_tags=[],
        task_offsets=[],
        task_end_offsets=[],
        assignment=none,
        target_assignment=none,
        is_classic=False,
    )
    fake.on(CLASSIC, lambda _: classic(error_code=int(ErrorCode.GROUP_ID_NOT_FOUND)))
    fake.on(ApiKey.STREAMS_GROUP_DESCRIBE, lambda _: streams(topology=topology, members=[member]))
    found = await describe_group(await client(fake.bootstrap), "g")
    assert (found.type, found.topology_epoch) == ("streams", 3)
    assert found.topics == {"orders", "app-counts-repartition"}
    assert found.internal == {"app-counts-repartition", "app-counts-changelog"}


def with_members(kind: str, *members: MemberView) -> GroupView:
    return GroupView(group="g", state="Stable", type=kind, protocol_type=kind, members=members)


async def test_members_are_removed_by_the_protocol_that_they_have_joined_by(
    fake: FakeCluster, client: OpenCluster
) -> None:
    """LeaveGroup knows no member of KIP-848: the heartbeat with which it would leave is sent for it."""
    fake.on(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        lambda request: ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=int(ErrorCode.UNKNOWN_MEMBER_ID) if request.message.member_id == "gone" else 0,
            error_message=None,
            member_id=None,
            member_epoch=-1,
            heartbeat_interval_ms=0,
            assignment=None,
        ),
    )
    kind = LeaveGroupResponse.MemberResponse
    fake.on(
        ApiKey.LEAVE_GROUP,
        lambda request: LeaveGroupResponse(
            throttle_time_ms=0,
            error_code=0,
            members=[
                kind(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=25)
                for one in request.message.members
            ],
        ),
    )
    members = tuple(MemberView(member_id=each, client_id="c", host="h", instance_id="") for each in ("here", "gone"))
    cluster = await client(fake.bootstrap)
    await remove_any_members(cluster, "g", with_members("consumer", *members))
    left = [asked.message for asked in fake.brokers[2].asked(ApiKey.CONSUMER_GROUP_HEARTBEAT)]
    assert sorted((one.member_id, one.member_epoch) for one in left) == [("gone", -1), ("here", -1)]
    assert len(fake.brokers[2].asked(ApiKey.LEAVE_GROUP)) == 1  # it may have classic ones, too
    await remove_any_members(cluster, "g", with_members("streams", *members))
    assert len(fake.brokers[2].asked(ApiKey.LEAVE_GROUP)) == 1


async def test_who_may_remove_nobody_is_told_so(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        lambda _: ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED),
            error_message=None,
            member_id=None,
            member_epoch=0,
            heartbeat_interval_ms=0,
            assignment=None,
        ),
    )
    member = MemberView(member_id="m", client_id="c", host="h", instance_id="")
    with pytest.raises(BrokerError, match="ConsumerGroupHeartbeat g: GROUP_AUTHORIZATION_FAILED"):
        await remove_any_members(await client(fake.bootstrap), "g", with_members("consumer", member))


async def test_who_is_not_removed_keeps_nobody_else_in(fake: FakeCluster, client: OpenCluster) -> None:
    """When the error is raised nothing is under way: what was sent behind it was outside of the caller's lock."""

    def heartbeat(request: Request) -> ConsumerGroupHeartbeatResponse:
        refused = request.message.member_id == "refused"
        return ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED if refused else ErrorCode.NONE),
            error_message=None,
            member_id=None,
            member_epoch=-1,
            heartbeat_interval_ms=0,
            assignment=None,
        )

    moves = [int(ErrorCode.NOT_COORDINATOR)]

    def moved_first(request: Request) -> ConsumerGroupHeartbeatResponse:
        answer = heartbeat(request)
        if request.message.member_id == "moved" and moves:
            answer.error_code = moves.pop()
        return answer

    fake.on(ApiKey.CONSUMER_GROUP_HEARTBEAT, moved_first)
    members = tuple(
        MemberView(member_id=each, client_id="c", host="h", instance_id="") for each in ("refused", "moved")
    )
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        await remove_any_members(await client(fake.bootstrap), "g", with_members("consumer", *members))
    asked = [one.message.member_id for one in fake.asked(ApiKey.CONSUMER_GROUP_HEARTBEAT)]
    assert sorted(asked) == ["moved", "moved", "refused"]
