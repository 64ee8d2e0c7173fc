"""ListGroups, DescribeGroups and DeleteGroups, and what a broker says of KIP-848 groups: the model has none."""

from __future__ import annotations

from typing import Any

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    ListGroupsResponse,
)
from tests.simulation.kafka.broker import Broker, Request, handles
from tests.simulation.kafka.groups.classic_group import ClassicGroup, GroupState, Member
from tests.simulation.kafka.groups.group_handlers import status

_CLASSIC = "classic"
_SAYS_NOT_FOUND = 6


@handles(ApiKey.LIST_GROUPS)
async def list_groups(broker: Broker, request: Request) -> Any:
    """The groups that this broker coordinates, by states and types if asked so."""
    found = broker.cluster.groups.on(broker)
    if isinstance(found, ErrorCode):
        return ListGroupsResponse(error_code=int(found), groups=[])
    message = request.message
    states = {state.lower() for state in message.states_filter or () if request.version >= 4}
    types = {kind.lower() for kind in message.types_filter or () if request.version >= 5}
    groups = [
        ListGroupsResponse.ListedGroup(
            group_id=rules.group.group_id,
            protocol_type=rules.group.protocol_type or "",
            group_state=str(rules.group.state),
            group_type=_CLASSIC,
        )
        for rules in found
        if (not states or rules.group.state.lower() in states) and (not types or _CLASSIC in types)
    ]
    return ListGroupsResponse(error_code=0, groups=groups)


@handles(ApiKey.DESCRIBE_GROUPS)
async def describe_groups(broker: Broker, request: Request) -> Any:
    """State and members. A group that does not exist is Dead; from version 6 on (KIP-1043) that is an error, too."""
    return DescribeGroupsResponse(
        groups=[_described(broker, group, request.version) for group in request.message.groups]
    )


def _described(broker: Broker, name: str, version: int) -> Any:
    answer = DescribeGroupsResponse.DescribedGroup
    groups = status(broker, name, may_be_empty=True)
    if isinstance(groups, ErrorCode):
        return answer(group_id=name, error_code=int(groups))
    rules = groups.read(name)
    if rules is None and version >= _SAYS_NOT_FOUND:
        return answer(
            group_id=name,
            error_code=int(ErrorCode.GROUP_ID_NOT_FOUND),
            error_message=f"Group {name} not found.",
            group_state=str(GroupState.DEAD),
        )
    if rules is None:
        return answer(group_id=name, group_state=str(GroupState.DEAD))
    group = rules.group
    stable = group.state is GroupState.STABLE
    return answer(
        group_id=name,
        group_state=str(group.state),
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[_member(group, member, stable, groups.owner.is_java) for member in group.members.values()],
    )


def _member(group: ClassicGroup, member: Member, stable: bool, tells_assignment: bool) -> Any:
    """Who is in a rebalance tells no metadata; the old coordinator (3.9) tells no assignment either."""
    return DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.protocols.get(group.protocol_name or "", b"") if stable else b"",
        member_assignment=member.assignment if stable or tells_assignment else b"",
    )


@handles(ApiKey.DELETE_GROUPS)
async def delete_groups(broker: Broker, request: Request) -> Any:
    """Empty groups, with their offsets."""
    results = []
    for name in dict.fromkeys(request.message.groups_names):
        groups = status(broker, name, may_be_empty=True)
        error = groups if isinstance(groups, ErrorCode) else groups.delete(name)
        results.append(DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=int(error)))
    return DeleteGroupsResponse(results=results)


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE)
async def consumer_group_describe(broker: Broker, request: Request) -> Any:
    """No group is of that type here. 3.9 has the API but not switched on."""
    answer = ConsumerGroupDescribeResponse.DescribedGroup
    results = []
    for name in request.message.group_ids:
        groups = status(broker, name)
        error = groups if isinstance(groups, ErrorCode) else ErrorCode.GROUP_ID_NOT_FOUND
        why = None
        if not broker.cluster.groups.is_java:
            error = ErrorCode.UNSUPPORTED_VERSION
        elif error == ErrorCode.GROUP_ID_NOT_FOUND:
            known = not isinstance(groups, ErrorCode) and groups.get(name) is not None
            why = f"Group {name} is not a consumer group." if known else f"Group {name} not found."
        results.append(answer(group_id=name, error_code=int(error), error_message=why))
    return ConsumerGroupDescribeResponse(groups=results)


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT)
async def consumer_group_heartbeat(broker: Broker, request: Request) -> Any:
    """Refused: the model has classic groups only."""
    return ConsumerGroupHeartbeatResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))
