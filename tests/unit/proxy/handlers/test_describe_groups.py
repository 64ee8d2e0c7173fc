"""What tools are told of a group whose members wait at its gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.groups.gate.rules.gates import Identity, Waiter
from protocol.apis import ApiKey
from protocol.codec import encode_request, encode_response
from protocol.errors import ErrorCode
from protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tests.support.control.gates import gate
from tests.unit.proxy.handlers.test_group_handlers import answer, gated, versions

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

__all__ = ["gated"]

Classic = DescribeGroupsResponse.DescribedGroup
Consumer = ConsumerGroupDescribeResponse.DescribedGroup
NOT_FOUND = int(ErrorCode.GROUP_ID_NOT_FOUND)


def waits(talk: Conversation, *clients: str, api: int = ApiKey.JOIN_GROUP) -> None:
    for client in clients:
        talk.gates.wait(Waiter("g", Identity("10.0.0.2", client), since=0.0, api=api), lambda: None)


def described(talk: Conversation, version: int, *told: Any) -> Any:
    """Ask of the groups that the target tells of, and return what the client is told."""
    message = DescribeGroupsRequest(groups=[one.group_id for one in told], include_authorized_operations=False)
    talk.says(encode_request(message, version, 5, "me"))
    said = DescribeGroupsResponse(throttle_time_ms=0, groups=list(told))
    talk.session.upstream_data(encode_response(said, ApiKey.DESCRIBE_GROUPS, version, 5))
    return answer(talk, ApiKey.DESCRIBE_GROUPS, version).groups


def classic(group: str = "g", state: str = "Dead", code: int = 0, **more: Any) -> Any:
    values: dict[str, Any] = {"protocol_type": "", "protocol_data": "", "members": [], **more}
    return Classic(error_code=code, error_message=None, group_id=group, group_state=state, **values)


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
async def test_a_group_whose_members_wait_is_in_a_rebalance(gated: Conversation, version: int) -> None:
    waits(gated, "b", "a")
    told = classic(code=NOT_FOUND) if version >= 6 else classic()
    waiting, other = described(gated, version, told, classic("other"))
    assert (waiting.error_code, waiting.group_state, waiting.protocol_type) == (0, "PreparingRebalance", "consumer")
    assert [(one.client_id, one.client_host) for one in waiting.members] == [("a", "/10.0.0.2"), ("b", "/10.0.0.2")]
    assert [one.member_id for one in waiting.members] == ["a-waits-at-the-gate-1", "b-waits-at-the-gate-2"]
    assert (other.group_state, other.members) == ("Dead", [])


@pytest.mark.parametrize(
    "told",
    [
        classic(code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED)),
        classic(code=int(ErrorCode.NOT_COORDINATOR)),
        classic(
            state="Stable",
            members=[
                Classic.DescribedGroupMember(
                    member_id="m", client_id="c", client_host="/h", member_metadata=b"", member_assignment=b""
                )
            ],
        ),
    ],
)
async def test_what_the_target_knows_better_stays(gated: Conversation, told: Any) -> None:
    waits(gated, "a")
    (found,) = described(gated, 5, told)
    assert (found.error_code, found.group_state, len(found.members)) == (
        told.error_code,
        told.group_state,
        len(told.members),
    )


@pytest.mark.parametrize("is_open", [False, True])
async def test_of_a_group_that_nobody_waits_for_the_target_tells(gated: Conversation, is_open: bool) -> None:
    gate(gated.gates, "g", is_open=is_open)
    if is_open:
        waits(gated, "a")
    else:
        waits(gated, "exporter", api=ApiKey.OFFSET_FETCH)
    (found,) = described(gated, 5, classic())
    assert (found.group_state, found.members) == ("Dead", [])


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_DESCRIBE))
@pytest.mark.parametrize(("state", "code", "shown"), [("Empty", 0, "Assigning"), ("", NOT_FOUND, "")])
async def test_of_the_new_protocol(gated: Conversation, version: int, state: str, code: int, shown: str) -> None:
    """One that the target does not know is asked for by DescribeGroups next."""
    waits(gated, "a", api=ApiKey.CONSUMER_GROUP_HEARTBEAT)
    message = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
    gated.says(encode_request(message, version, 5, "me"))
    told = Consumer(
        error_code=code,
        error_message=None,
        group_id="g",
        group_state=state,
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="uniform",
        members=[],
        authorized_operations=-(2**31),
    )
    said = ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=[told])
    gated.session.upstream_data(encode_response(said, ApiKey.CONSUMER_GROUP_DESCRIBE, version, 5))
    (found,) = answer(gated, ApiKey.CONSUMER_GROUP_DESCRIBE, version).groups
    members = [(one.client_id, one.member_epoch, one.assignment.topic_partitions) for one in found.members]
    assert (found.error_code, found.group_state) == (code, shown)
    assert members == ([("a", 0, [])] if shown else [])
