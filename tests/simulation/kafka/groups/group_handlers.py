"""FindCoordinator, JoinGroup, SyncGroup, Heartbeat and LeaveGroup, as brokers answer them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import (
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from tests.simulation.kafka.broker import PORT, Broker, Request, handles
from tests.simulation.kafka.groups.classic_group import Joined, OnSynced, Synced
from tests.simulation.kafka.groups.group_rules import JoinRequest
from tests.simulation.kafka.groups.groups import Groups

if TYPE_CHECKING:
    from tests.simulation.kafka.logs.partition import Partition

_KINDS = {0: "group", 1: "transaction"}
_NO_MEMBER_ID = 4
_SKIPS = 9
_LISTS = 4
WRITES_S: Final = 5.0
"""For so long a coordinator waits until all replicas in sync have what it writes (offsets.commit.timeout.ms)."""

Answer = TypeVar("Answer")


def client_host(request: Request) -> str:
    """The client's address as Java prints it."""
    return "/" + request.session.peer.rsplit(":", 1)[0]


@handles(ApiKey.FIND_COORDINATOR)
async def find_coordinator(broker: Broker, request: Request) -> Any:
    """Which broker coordinates a group or a transactional id; from version 4 on several at once."""
    message = request.message
    if request.version < _LISTS:
        found = _coordinator(broker, message.key_type if request.version > 0 else 0, message.key)
        error = found.error_code
        words = "NONE" if not error else "The coordinator is not available."
        return FindCoordinatorResponse(
            error_code=error, error_message=words, node_id=found.node_id, host=found.host, port=found.port
        )
    found_all = [_coordinator(broker, message.key_type, key) for key in message.coordinator_keys]
    return FindCoordinatorResponse(coordinators=found_all)


def _coordinator(broker: Broker, key_type: int, key: str) -> Any:
    answer = FindCoordinatorResponse.Coordinator
    kind = _KINDS.get(key_type)
    cluster = broker.cluster
    leader = -1 if kind is None else _leader(broker, cluster.coordinator(kind, key))
    if leader in cluster.brokers and leader not in broker.fenced:
        return answer(key=key, node_id=leader, host=cluster.brokers[leader].host, port=PORT, error_code=0)
    error = ErrorCode.INVALID_REQUEST if kind is None else ErrorCode.COORDINATOR_NOT_AVAILABLE
    return answer(key=key, node_id=-1, host="", port=-1, error_code=int(error), error_message=error.name)


def _leader(broker: Broker, partition: Partition) -> int:
    """Who has lost the cluster tells what it heard last."""
    return partition.seen_by(broker.id).leader if broker.cut_off else partition.leader_id


def status(broker: Broker, group: str, *, may_be_empty: bool = False) -> Groups | ErrorCode:
    """The groups of this coordinator, or why it cannot answer for this one."""
    if not group and not may_be_empty:
        return ErrorCode.INVALID_GROUP_ID
    return broker.cluster.groups.find(broker, group)


@handles(ApiKey.JOIN_GROUP)
async def join_group(broker: Broker, request: Request) -> Any:
    """Answered when the rebalance is through."""
    message, version = request.message, request.version
    groups = status(broker, message.group_id)
    error = _join_error(broker, groups, message)
    if error:
        return _joined(Joined(error=error, member_id=message.member_id), version)
    assert isinstance(groups, Groups)
    if message.member_id and groups.get(message.group_id) is None:
        return _joined(Joined(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=message.member_id), version)
    join = JoinRequest(
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        client_id=request.client_id or "",
        client_host=client_host(request),
        session_ms=message.session_timeout_ms,
        rebalance_ms=message.rebalance_timeout_ms if version > 0 else message.session_timeout_ms,
        protocol_type=message.protocol_type,
        protocols={protocol.name: bytes(protocol.metadata) for protocol in message.protocols},
        needs_known_id=version >= _NO_MEMBER_ID,
        can_skip_assignment=version >= _SKIPS,
    )
    is_new = groups.get(message.group_id) is None
    rules = groups.get_or_create(message.group_id)
    if is_new:  # one that a refused commit has left is not written by a join, either
        groups.written()
    return _joined(await _wait(broker, lambda answer: rules.join(join, answer)), version)


def _join_error(broker: Broker, groups: Groups | ErrorCode, message: Any) -> int:
    limits = broker.cluster.groups
    shortest, longest = limits.config("group.min.session.timeout.ms"), limits.config("group.max.session.timeout.ms")
    too_short_or_long = not shortest <= message.session_timeout_ms <= longest
    if too_short_or_long and (limits.is_java or isinstance(groups, Groups)) and message.group_id:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return groups if isinstance(groups, ErrorCode) else ErrorCode.NONE


def _joined(answer: Joined, version: int) -> Any:
    members = [
        JoinGroupResponse.JoinGroupResponseMember(member_id=member_id, group_instance_id=instance, metadata=metadata)
        for member_id, instance, metadata in answer.members
    ]
    return JoinGroupResponse(
        error_code=int(answer.error),
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name if version >= 7 else answer.protocol_name or "",
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=members,
    )


@handles(ApiKey.SYNC_GROUP)
async def sync_group(broker: Broker, request: Request) -> Any:
    """Answered when the leader has sent the assignments."""
    message = request.message
    if request.version >= 5 and (message.protocol_type is None or message.protocol_name is None):
        return _synced(Synced(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    groups = status(broker, message.group_id)
    if isinstance(groups, ErrorCode):
        loading = groups == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return _synced(Synced(error=ErrorCode.REBALANCE_IN_PROGRESS if loading else groups))
    if message.assignments:
        await broker.hears_again(WRITES_S)
    rules = groups.get(message.group_id)
    if rules is None:
        return _synced(Synced(error=ErrorCode.UNKNOWN_MEMBER_ID))
    assignments = {each.member_id: bytes(each.assignment) for each in message.assignments}
    protocol = (message.protocol_type, message.protocol_name) if request.version >= 5 else (None, None)

    def ask(answer: OnSynced) -> None:
        member_id, instance_id = message.member_id, message.group_instance_id
        rules.sync(message.generation_id, member_id, instance_id, protocol, assignments, answer)

    return _synced(await _wait(broker, ask))


def _synced(answer: Synced) -> Any:
    return SyncGroupResponse(
        error_code=int(answer.error),
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )


@handles(ApiKey.HEARTBEAT)
async def heartbeat(broker: Broker, request: Request) -> Any:
    """At once. A coordinator that still loads says that all is well."""
    message = request.message
    groups = status(broker, message.group_id)
    if isinstance(groups, ErrorCode):
        loading = groups == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=0 if loading else int(groups))
    rules = groups.get(message.group_id)
    if rules is None:
        return HeartbeatResponse(error_code=int(ErrorCode.UNKNOWN_MEMBER_ID))
    error = rules.heartbeat(message.generation_id, message.member_id, message.group_instance_id)
    return HeartbeatResponse(error_code=int(error))


@handles(ApiKey.LEAVE_GROUP)
async def leave_group(broker: Broker, request: Request) -> Any:
    """One member before version 3, several since."""
    message = request.message
    groups = status(broker, message.group_id)
    if isinstance(groups, ErrorCode):
        return LeaveGroupResponse(error_code=int(groups), members=[])
    if request.version >= 3:
        leaving = [(member.member_id, member.group_instance_id) for member in message.members]
    else:
        leaving = [(message.member_id, None)]
    rules = groups.get(message.group_id)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    errors = [int(rules.leave(*member) if rules is not None else unknown) for member in leaving]
    if request.version < 3:
        return LeaveGroupResponse(error_code=errors[0], members=[])
    members = [
        LeaveGroupResponse.MemberResponse(member_id=member_id, group_instance_id=instance, error_code=error)
        for (member_id, instance), error in zip(leaving, errors, strict=True)
    ]
    return LeaveGroupResponse(error_code=0, members=members)


async def _wait(broker: Broker, ask: Callable[[Callable[[Answer], None]], None]) -> Answer:
    """Ask something that calls back now or later."""
    answered: asyncio.Future[Answer] = broker.cluster.loop.create_future()

    def answer(found: Answer) -> None:
        if not answered.done():
            answered.set_result(found)

    ask(answer)
    return await answered
