"""Groups: lists and describes them, and removes members. Classic, consumer (KIP-848), share (KIP-932) and streams
groups (KIP-1071) alike."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.kafka.cluster import Cluster
from gateway.kafka.commits import Committed, commit_offsets, committed_offsets
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, UnsupportedVersion
from gateway.kafka.routed import on_coordinator
from protocol.apis import ApiKey
from protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from protocol.errors import ErrorCode, MalformedFrame, error_name, is_retriable
from protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)

DEAD = "Dead"
EMPTY = "Empty"
SHARE = "share"
STREAMS = "streams"

_NOT_THIS_TYPE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


class GroupListing(NamedTuple):
    """A group as its coordinator lists it. `state` and `type` are empty from brokers too old to tell."""

    group: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A member of a group. `assigned` is topic -> its partitions; `subscribed` the topics it names.

    Both are empty if the group does not use the consumers' protocol. `subscribed_regex` is the pattern of a KIP-848
    member that subscribes by one. `assignment`: a classic group's raw assignment, for any protocol.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    subscribed: frozenset[str] = frozenset()
    subscribed_regex: str = ""
    assigned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    assignment: bytes = field(default=b"", compare=False, repr=False)

    @property
    def topics(self) -> frozenset[str]:
        """Every topic that the member is known to read."""
        return self.subscribed | self.assigned.keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """An independent part of a Streams application (KIP-1071). `reads`: source and repartition topics; `writes`:
    repartition topics that it fills; `changelogs`: of its state. No broker knows its other output topics."""

    name: str
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    changelogs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group, described. `state` has Kafka's name; `Dead` is a group that does not exist.

    `type` is `classic`, `consumer` (KIP-848), `share` (KIP-932) or `streams` (KIP-1071); `protocol_type` is `consumer`
    for consumers of the first two, `connect` and the like for others. `protocol`: of a classic group, the assignor that
    its members agreed on, such as `range`, or `stream` of Kafka Streams. Of a streams group, `topology_epoch`: of its
    topology; `internal`: topics that the application makes for itself, to repartition and to keep its state;
    `subtopologies`: its parts.
    """

    group: str
    state: str
    type: str
    protocol_type: str
    members: tuple[MemberView, ...] = ()
    topology_epoch: int = -1
    internal: frozenset[str] = frozenset()
    protocol: str = ""
    subtopologies: tuple[Subtopology, ...] = ()

    @property
    def topics(self) -> frozenset[str]:
        """Every topic that a member is known to read."""
        return frozenset().union(*(member.topics for member in self.members))


async def list_groups(cluster: Cluster, *, timeout_s: float | None = None) -> tuple[GroupListing, ...]:
    """Every group of the cluster, asked of every broker, in order of name.

    Raises:
        ClusterUnavailable: a broker did not answer within the deadline, so the list would be incomplete.
        BrokerError: a broker refuses.
    """
    answers = await asyncio.gather(
        *(_list_on(cluster, node, timeout_s) for node in tuple(cluster.view.brokers)), return_exceptions=True
    )
    found: dict[str, GroupListing] = {}
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        found.update((listing.group, listing) for listing in answer)
    return tuple(found[name] for name in sorted(found))


async def _list_on(cluster: Cluster, node: int, timeout_s: float | None) -> list[GroupListing]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (cluster.config.api_timeout_s if timeout_s is None else timeout_s)
    while True:
        request = ListGroupsRequest(states_filter=[], types_filter=[])
        response = await cluster.request(request, node_id=node, timeout_s=deadline - loop.time())
        code = response.error_code
        if not code:
            break
        if not is_retriable(code):
            raise BrokerError(code, f"ListGroups on broker {node}: {error_name(code)}")
        if loop.time() + cluster.config.retry_backoff_s[1] >= deadline:
            raise ClusterUnavailable(f"ListGroups on broker {node}: {error_name(code)}")
        await asyncio.sleep(cluster.config.retry_backoff_s[0])
    return [
        GroupListing(item.group_id, item.protocol_type, item.group_state or "", (item.group_type or "").lower())
        for item in response.groups
    ]


async def describe_group(cluster: Cluster, group: str, *, timeout_s: float | None = None) -> GroupView:
    """State and members of a group. A group that does not exist is `Dead` and has none.

    Raises:
        ClusterUnavailable: no answer within the deadline.
        BrokerError: the coordinator refuses, for example GROUP_AUTHORIZATION_FAILED (30).
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (cluster.config.api_timeout_s if timeout_s is None else timeout_s)
    for describe in (_describe_consumer, _describe_classic, _describe_share, _describe_streams):
        found = await describe(cluster, group, max(0.001, deadline - loop.time()))
        if found is not None:
            return found
    return GroupView(group=group, state=DEAD, type="", protocol_type="")


async def remove_members(cluster: Cluster, group: str, members: Sequence[MemberView]) -> Mapping[str, int]:
    """Remove members from a group, as Kafka's Admin does (LeaveGroup v3, KIP-345): static ones by their instance id.

    Returns:
        Member id -> error code; 0 for one that is out of the group, also for one that was already.

    Raises:
        ClusterUnavailable: no answer within the deadline; asked again, it removes nobody else.
        BrokerError: the coordinator refuses it as a whole, for example GROUP_AUTHORIZATION_FAILED (30).
    """
    named = [
        LeaveGroupRequest.MemberIdentity(
            member_id="" if one.instance_id else one.member_id,
            group_instance_id=one.instance_id,
            reason="removed by an operator",
        )
        for one in members
    ]
    request = LeaveGroupRequest(group_id=group, member_id="", members=named)
    response = await on_coordinator(cluster, group, request, lambda answer: [answer.error_code])
    if response.error_code:
        raise BrokerError(response.error_code, f"LeaveGroup {group}: {error_name(response.error_code)}")
    gone = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE)
    codes = [member.error_code for member in response.members]
    return {one.member_id: 0 if code in gone else int(code) for one, code in zip(members, codes, strict=True)}


_LEAVES = -1
_GONE = (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
_CONSUMER = "consumer"


async def remove_any_members(cluster: Cluster, group: str, view: GroupView) -> None:
    """Remove the members in `view`.

    LeaveGroup does not remove a KIP-848 member (Kafka 4.x answers UNKNOWN_MEMBER_ID): instead this sends the member's
    last heartbeat, with epoch -1, which also removes a static member for good. Members of share and streams groups are
    not removed.

    Raises:
        ClusterUnavailable: no answer within the deadline; a repeated call removes no other member.
        BrokerError: the coordinator refuses, for example GROUP_AUTHORIZATION_FAILED (30).
    """
    if view.type == _CONSUMER:
        left = (_heartbeat(cluster, group, member) for member in view.members)
        for outcome in await asyncio.gather(*left, return_exceptions=True):  # all are sent before an error is raised
            if outcome is not None:
                raise outcome
    if view.members and view.type in ("classic", _CONSUMER, ""):
        await remove_members(cluster, group, view.members)  # a group of KIP-848 may have classic ones, too


async def _heartbeat(cluster: Cluster, group: str, member: MemberView) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member.member_id,
        member_epoch=_LEAVES,
        instance_id=member.instance_id or None,
        rack_id=None,
        rebalance_timeout_ms=-1,
        subscribed_topic_names=None,
        server_assignor=None,
        topic_partitions=None,
    )
    answer: Any = await on_coordinator(cluster, group, request, lambda found: [found.error_code], cap=0)
    if answer.error_code not in _GONE:
        raise BrokerError(answer.error_code, f"ConsumerGroupHeartbeat {group}: {error_name(answer.error_code)}")


async def _describe_consumer(cluster: Cluster, group: str, timeout_s: float) -> GroupView | None:
    """None when it is not a KIP-848 group, or the broker does not know of such."""
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    described = await _describe(cluster, group, request, ApiKey.CONSUMER_GROUP_DESCRIBE, timeout_s)
    if described is None:
        return None
    members = tuple(
        MemberView(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            instance_id=member.instance_id,
            subscribed=frozenset(member.subscribed_topic_names or ()),
            subscribed_regex=member.subscribed_topic_regex or "",
            assigned=_partitions(member.assignment),
        )
        for member in described.members
    )
    return GroupView(
        group=group, state=described.group_state, type="consumer", protocol_type="consumer", members=members
    )


async def _describe_share(cluster: Cluster, group: str, timeout_s: float) -> GroupView | None:
    """None when it is not a share group, or the broker does not know of such."""
    request = ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    described = await _describe(cluster, group, request, ApiKey.SHARE_GROUP_DESCRIBE, timeout_s)
    if described is None or described.group_state == DEAD:
        return None
    members = tuple(
        MemberView(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            subscribed=frozenset(member.subscribed_topic_names or ()),
            assigned=_partitions(member.assignment),
        )
        for member in described.members
    )
    return GroupView(group=group, state=described.group_state, type=SHARE, protocol_type=SHARE, members=members)


async def _describe_streams(cluster: Cluster, group: str, timeout_s: float) -> GroupView | None:
    """None when it is not a streams group, or the broker does not know of such. Members read what the topology does."""
    request = StreamsGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    described = await _describe(cluster, group, request, ApiKey.STREAMS_GROUP_DESCRIBE, timeout_s)
    if described is None or described.group_state == DEAD:
        return None
    topology = described.topology
    subtopologies = () if topology is None else topology.subtopologies or ()
    read = frozenset(
        topic
        for one in subtopologies
        for topic in (*one.source_topics, *(info.name for info in one.repartition_source_topics))
    )
    internal = frozenset(
        info.name for one in subtopologies for info in (*one.repartition_source_topics, *one.state_changelog_topics)
    )
    members = tuple(
        MemberView(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            instance_id=member.instance_id,
            subscribed=read,
        )
        for member in described.members
    )
    return GroupView(
        group=group,
        state=described.group_state,
        type=STREAMS,
        protocol_type=STREAMS,
        members=members,
        topology_epoch=-1 if topology is None else topology.epoch,
        internal=internal,
        subtopologies=tuple(
            Subtopology(
                name=one.subtopology_id,
                reads=frozenset((*one.source_topics, *(info.name for info in one.repartition_source_topics))),
                writes=frozenset(one.repartition_sink_topics),
                changelogs=frozenset(info.name for info in one.state_changelog_topics),
            )
            for one in subtopologies
        ),
    )


async def _describe_classic(cluster: Cluster, group: str, timeout_s: float) -> GroupView | None:
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
    described = await _describe(cluster, group, request, ApiKey.DESCRIBE_GROUPS, timeout_s)
    if described is None or described.group_state == DEAD:
        return None
    ours = described.protocol_type == PROTOCOL_TYPE
    members = tuple(
        MemberView(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            instance_id=member.group_instance_id,
            subscribed=_subscribed(member.member_metadata) if ours else frozenset(),
            assigned=_assigned(member.member_assignment) if ours else {},
            assignment=bytes(member.member_assignment or b""),
        )
        for member in described.members
    )
    return GroupView(
        group=group,
        state=described.group_state,
        type="classic",
        protocol_type=described.protocol_type,
        members=members,
        protocol=described.protocol_data or "",
    )


async def _describe(cluster: Cluster, group: str, request: Any, key: ApiKey, timeout_s: float) -> Any:
    """The one described group of any API, None when the coordinator has no group of this type, or knows of no such."""
    try:
        response = await on_coordinator(
            cluster, group, request, lambda answer: [item.error_code for item in answer.groups], timeout_s=timeout_s
        )
    except UnsupportedVersion:
        return None
    described = response.groups[0]
    if described.error_code in _NOT_THIS_TYPE:
        return None
    if described.error_code:
        why = described.error_message or error_name(described.error_code)
        raise BrokerError(described.error_code, f"{key.name} {group}: {why}")
    return described


def _partitions(assignment: Any) -> dict[str, tuple[int, ...]]:
    """The assignment of a KIP-848 or share group's member."""
    return {part.topic_name: tuple(part.partitions) for part in assignment.topic_partitions}


def _subscribed(metadata: bytes | None) -> frozenset[str]:
    """The topics in a member's metadata. A member may put anything there; unreadable metadata counts as none."""
    try:
        return frozenset(decode_subscription(metadata or b"").topics)
    except MalformedFrame:
        return frozenset()


def _assigned(assignment: bytes | None) -> Mapping[str, tuple[int, ...]]:
    try:
        return decode_assignment(assignment or b"").partitions
    except MalformedFrame:
        return {}


__all__ = [
    "DEAD",
    "EMPTY",
    "SHARE",
    "STREAMS",
    "Committed",
    "GroupListing",
    "GroupView",
    "MemberView",
    "commit_offsets",
    "committed_offsets",
    "describe_group",
    "list_groups",
    "remove_members",
]
