"""Steps: groups of the classic protocol, their offsets, and what is told of them.

Each member has a connection of its own: its JoinGroup or SyncGroup may be answered only after a later step.
"""

from __future__ import annotations

from random import Random
from typing import Any

from protocol.apis import ApiKey
from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.messages import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tests.broker_model.context import Context, MemberInfo
from tests.broker_model.sides import CLOSED
from tests.broker_model.steps import a_partition, a_topic, step

_SESSION_MS = 45_000
_REBALANCE_MS = 60_000
_INSTANCE_FROM = 5
_SYNC_INSTANCE_FROM = 3
_BY_ID = 10


def _group(ctx: Context, rng: Random) -> str:
    return f"group{rng.randrange(2)}{ctx.mine}"


def _subscription(topics: list[str]) -> bytes:
    out = (0).to_bytes(2, "big") + len(topics).to_bytes(4, "big")
    for topic in topics:
        out += len(topic).to_bytes(2, "big") + topic.encode()
    return out + (0).to_bytes(4, "big")


def _idle_member(ctx: Context, rng: Random, joined: bool) -> MemberInfo | None:
    found = [each for _, each in sorted(ctx.members.items()) if not each.waits and bool(each.member_id) == joined]
    return rng.choice(found) if found else None


@step(12)
async def join_group(ctx: Context, rng: Random) -> None:
    """Somebody new, with or without an instance id, or a member that joins again."""
    name = f"member{rng.randrange(3)}"
    known = ctx.members.get(name)
    if known is not None and known.waits:
        return
    if known is None or rng.random() < 0.1:
        instance = f"{ctx.prefix}instance{rng.randrange(2)}" if rng.random() < 0.25 else None
        known = ctx.members[name] = MemberInfo(name, _group(ctx, rng), instance)
    lowest = _INSTANCE_FROM if known.instance_id is not None else 0
    version = ctx.version(rng, ApiKey.JOIN_GROUP, lowest=lowest)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol
    names = rng.choice(
        (["range"], ["range", "sticky"], ["range", "sticky"], ["roundrobin"] if rng.random() < 0.2 else ["range"])
    )
    subscribed = _subscription([f"{ctx.prefix}t{rng.randrange(2)}"])
    message = JoinGroupRequest(
        group_id=known.group if rng.random() > 0.02 else "",
        session_timeout_ms=_SESSION_MS if rng.random() > 0.03 else 10,
        rebalance_timeout_ms=_REBALANCE_MS,
        member_id=known.member_id if rng.random() > 0.03 else f"{ctx.prefix}nobody",
        group_instance_id=known.instance_id,
        protocol_type=PROTOCOL_TYPE if rng.random() > 0.03 else "other",
        protocols=[protocol(name=each, metadata=subscribed) for each in names],
        reason=None,
    )
    node = await ctx.group_coordinator(known.group)
    ctx.start(f"{name} joins", node, ApiKey.JOIN_GROUP, version, message, known)
    await ctx.until_parked(known)


@step(12)
async def sync_group(ctx: Context, rng: Random) -> None:
    """The leader sends assignments, the others ask for theirs."""
    member = _idle_member(ctx, rng, joined=True)
    if member is None:
        return
    version = ctx.version(rng, ApiKey.SYNC_GROUP, lowest=_SYNC_INSTANCE_FROM if member.instance_id else 0)
    part = SyncGroupRequest.SyncGroupRequestAssignment
    shares = [part(member_id=each, assignment=b"share") for each in member.others] if member.leads else []
    message = SyncGroupRequest(
        group_id=member.group,
        generation_id=member.generation + (1 if rng.random() < 0.06 else 0),
        member_id=member.member_id if rng.random() > 0.03 else f"{ctx.prefix}nobody",
        group_instance_id=member.instance_id,
        protocol_type=PROTOCOL_TYPE if rng.random() > 0.05 else "other",
        protocol_name=rng.choice(("range", "range", "range", "sticky", None)),
        assignments=shares,
    )
    node = await ctx.group_coordinator(member.group)
    ctx.start(f"{member.name} syncs", node, ApiKey.SYNC_GROUP, version, message, member)


@step(8)
async def heartbeat(ctx: Context, rng: Random) -> None:
    """Of a member, of this generation or another."""
    member = _idle_member(ctx, rng, joined=True)
    if member is None:
        return
    version = ctx.version(rng, ApiKey.HEARTBEAT, lowest=3 if member.instance_id else 0)
    message = HeartbeatRequest(
        group_id=member.group if rng.random() > 0.03 else "",
        generation_id=member.generation + (1 if rng.random() < 0.1 else 0),
        member_id=member.member_id if rng.random() > 0.05 else f"{ctx.prefix}nobody",
        group_instance_id=member.instance_id,
    )
    node = await ctx.group_coordinator(member.group)
    await ctx.ask("heartbeat", node, ApiKey.HEARTBEAT, version, message)


@step(4)
async def leave_group(ctx: Context, rng: Random) -> None:
    """By member id, or by instance id alone."""
    member = _idle_member(ctx, rng, joined=True)
    if member is None:
        return
    version = ctx.version(rng, ApiKey.LEAVE_GROUP, lowest=3 if member.instance_id else 0)
    who = LeaveGroupRequest.MemberIdentity
    member_id = "" if member.instance_id and rng.random() < 0.5 else member.member_id
    if rng.random() < 0.05:
        member_id = f"{ctx.prefix}nobody"
    message = LeaveGroupRequest(
        group_id=member.group,
        member_id=member_id,
        members=[who(member_id=member_id, group_instance_id=member.instance_id, reason=None)],
    )
    node = await ctx.group_coordinator(member.group)
    answer = await ctx.ask("leave group", node, ApiKey.LEAVE_GROUP, version, message)
    if answer is not CLOSED and not answer.error_code and not any(each.error_code for each in answer.members):
        ctx.members.pop(member.name)


@step(9)
async def offset_commit(ctx: Context, rng: Random) -> None:
    """By a member, or by somebody who is in no group."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    group, member_id, generation, instance = _group(ctx, rng), "", -1, None
    member = _idle_member(ctx, rng, joined=True)
    if member is not None and rng.random() < 0.6:
        group, member_id, instance = member.group, member.member_id, member.instance_id
        generation = member.generation + (1 if rng.random() < 0.1 else 0)
    elif rng.random() < 0.1:
        generation = 3
    version = ctx.version(rng, ApiKey.OFFSET_COMMIT, 9, 7 if instance else 2)
    topic_class = OffsetCommitRequest.OffsetCommitRequestTopic
    part_class = topic_class.OffsetCommitRequestPartition
    indexes = sorted({a_partition(rng, topic), a_partition(rng, topic)})
    parts = [
        part_class(
            partition_index=index,
            committed_offset=rng.randrange(50),
            committed_leader_epoch=rng.choice((-1, 0)),
            committed_metadata=rng.choice(("", "", "m", "x" * 5000)),
        )
        for index in indexes
    ]
    message = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        retention_time_ms=-1,
        topics=[topic_class(name=topic.name, partitions=parts)],
    )
    node = await ctx.group_coordinator(group)
    await ctx.ask("offset commit", node, ApiKey.OFFSET_COMMIT, version, message)


@step(8)
async def offset_fetch(ctx: Context, rng: Random) -> None:
    """Of some partitions or of all, stable ones only or not."""
    group = _group(ctx, rng)
    topic = a_topic(ctx, rng)
    version = ctx.version(rng, ApiKey.OFFSET_FETCH, 9, 1)
    everything = version >= 2 and (topic is None or rng.random() < 0.5)
    stable = version >= 7 and rng.random() < 0.5
    if topic is None and not everything:
        return
    one = OffsetFetchRequest.OffsetFetchRequestTopic
    many = OffsetFetchRequest.OffsetFetchRequestGroup
    indexes = [] if topic is None else list(range(topic.partitions))
    name = "" if topic is None else topic.name
    if version >= 8:
        topics = None if everything else [many.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)]
        message: Any = OffsetFetchRequest(
            groups=[many(group_id=group, member_id=None, member_epoch=-1, topics=topics)], require_stable=stable
        )
    else:
        plain = None if everything else [one(name=name, partition_indexes=indexes)]
        message = OffsetFetchRequest(group_id=group, topics=plain, require_stable=stable)
    node = await ctx.group_coordinator(group)
    await ctx.ask("offset fetch", node, ApiKey.OFFSET_FETCH, version, message)


@step(2)
async def offset_delete(ctx: Context, rng: Random) -> None:
    """Of a topic that somebody reads, or nobody."""
    topic, group = a_topic(ctx, rng), _group(ctx, rng)
    if topic is None:
        return
    topic_class = OffsetDeleteRequest.OffsetDeleteRequestTopic
    part = topic_class.OffsetDeleteRequestPartition(partition_index=a_partition(rng, topic))
    message = OffsetDeleteRequest(group_id=group, topics=[topic_class(name=topic.name, partitions=[part])])
    node = await ctx.group_coordinator(group)
    await ctx.ask("offset delete", node, ApiKey.OFFSET_DELETE, 0, message)


@step(5)
async def describe_groups(ctx: Context, rng: Random) -> None:
    """State and members."""
    group = _group(ctx, rng)
    node = await ctx.group_coordinator(group)
    message = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
    await ctx.ask("describe groups", node, ApiKey.DESCRIBE_GROUPS, ctx.version(rng, ApiKey.DESCRIBE_GROUPS), message)


@step(2)
async def consumer_group_describe(ctx: Context, rng: Random) -> None:
    """As a group of KIP-848, which none is."""
    group = _group(ctx, rng) if rng.random() < 0.9 else ""
    node = await ctx.group_coordinator(group)
    message = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    version = ctx.version(rng, ApiKey.CONSUMER_GROUP_DESCRIBE)
    await ctx.ask("consumer group describe", node, ApiKey.CONSUMER_GROUP_DESCRIBE, version, message)


@step(3)
async def list_groups(ctx: Context, rng: Random) -> None:
    """Those of this sequence."""
    states = rng.choice(([], [], ["Stable"], ["empty", "PreparingRebalance"]))
    types = rng.choice(([], [], ["classic"], ["consumer"]))
    version = ctx.version(rng, ApiKey.LIST_GROUPS)
    message = ListGroupsRequest(
        states_filter=states if version >= 4 else [], types_filter=types if version >= 5 else []
    )
    await ctx.ask_everywhere("list groups", ApiKey.LIST_GROUPS, version, message, "groups")


@step(1)
async def let_a_member_fall_silent(ctx: Context, rng: Random) -> None:
    """A group of one whose session ends."""
    group = f"silent{rng.randrange(2)}{ctx.mine}"
    node = await ctx.group_coordinator(group)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=500,
        rebalance_timeout_ms=_REBALANCE_MS,
        member_id="",
        protocol_type=PROTOCOL_TYPE,
        protocols=[protocol],
    )
    joined = await ctx.ask("join in silence", node, ApiKey.JOIN_GROUP, 3, join)
    if joined.error_code:
        return
    share = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"s")
    sync = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[share]
    )
    await ctx.ask("sync in silence", node, ApiKey.SYNC_GROUP, 2, sync)
    await ctx.until_empty(group)
    beat = HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)
    await ctx.ask("heartbeat after silence", node, ApiKey.HEARTBEAT, 1, beat)
    describe = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
    await ctx.ask("describe after silence", node, ApiKey.DESCRIBE_GROUPS, 3, describe)


@step(2)
async def delete_groups(ctx: Context, rng: Random) -> None:
    """Empty or not, known or not."""
    group = _group(ctx, rng)
    node = await ctx.group_coordinator(group)
    message = DeleteGroupsRequest(groups_names=[group])
    await ctx.ask("delete groups", node, ApiKey.DELETE_GROUPS, ctx.version(rng, ApiKey.DELETE_GROUPS), message)


def heard(ctx: Context, label: str, answer: Any) -> None:
    """An answer to JoinGroup or SyncGroup has come: what the member knows now."""
    member = ctx.members.get(label.split(" ", 1)[0])
    if member is None or answer is CLOSED or " joins" not in label:
        return
    if answer.member_id and answer.member_id != member.member_id:
        ctx.normal.name("member", answer.member_id, f"{member.name} by {len(ctx.trace)}")
        member.member_id = answer.member_id
    if not answer.error_code:
        member.generation = answer.generation_id
        member.leads = answer.leader == answer.member_id
        member.others = tuple(each.member_id for each in answer.members)
