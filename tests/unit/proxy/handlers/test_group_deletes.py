"""A group's offsets on the target are not deleted while the group is still the source's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.cutover.write_pause.rules.routing import routing_of
from gateway.groups.gate.rules.gates import RecordedGate
from protocol.apis import ApiKey
from protocol.codec import decode_request, encode_request, encode_response
from protocol.errors import ErrorCode
from protocol.header import peek_request_header
from protocol.messages import DeleteGroupsRequest, DeleteGroupsResponse, OffsetDeleteRequest, OffsetDeleteResponse
from tests.support.control.gates import commits_under_way
from tests.unit.proxy.handlers.test_group_handlers import answer, route, versions
from tests.unit.proxy.produce.test_lease import Lease

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

LOADING, NON_EMPTY = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), int(ErrorCode.NON_EMPTY_GROUP)
GROUPS, OFFSETS = ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE


@pytest.fixture
async def gated(talk: Conversation) -> Conversation:
    """`g` waits, `h` is promoted, nobody knows `new`."""
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored")}))
    talk.gates.enabled = True
    talk.gates.recorded({"g": RecordedGate(False, 0), "h": RecordedGate(True, 0)}, grown_at=0)
    return talk


def delete_groups(*groups: str, version: int = 2) -> bytes:
    return encode_request(DeleteGroupsRequest(groups_names=list(groups)), version, 5, "me")


def delete_offsets(group: str) -> bytes:
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    parts = [topic.OffsetDeleteRequestPartition(partition_index=0)]
    message = OffsetDeleteRequest(group_id=group, topics=[topic(name="mirrored", partitions=parts)])
    return encode_request(message, 0, 5, "me")


def results(talk: Conversation, version: int = 2) -> list[tuple[str, int]]:
    return [(each.group_id, each.error_code) for each in answer(talk, GROUPS, version).results]


def asked(talk: Conversation) -> Any:
    (frame,) = talk.broker.frames()
    view = memoryview(frame)
    return decode_request(GROUPS, 2, view[peek_request_header(view).body_offset :]).groups_names


@pytest.mark.parametrize("version", versions(GROUPS))
async def test_a_group_that_waits_is_not_empty(gated: Conversation, version: int) -> None:
    gated.says(delete_groups("g", version=version))
    assert gated.loop.timers[0].delay == 3.0
    gated.loop.fire()
    assert results(gated, version) == [("g", NON_EMPTY)]
    assert not gated.broker.frames()
    assert gated.gates.waiters("g") == []  # who deletes it is no member


async def test_nor_are_offsets_of_such_a_group_deleted(gated: Conversation) -> None:
    gated.says(delete_offsets("g"))
    gated.loop.fire()
    found = answer(gated, OFFSETS, 0)
    assert (found.error_code, found.topics) == (NON_EMPTY, [])
    assert not gated.broker.frames()


async def test_of_several_groups_those_that_may_read_are_deleted(gated: Conversation) -> None:
    gated.says(delete_groups("new", "h", "g"))
    gated.loop.fire()
    assert asked(gated) == ["h"]
    assert commits_under_way(gated.gates, "h")
    kind = DeleteGroupsResponse.DeletableGroupResult
    said = DeleteGroupsResponse(throttle_time_ms=0, results=[kind(group_id="h", error_code=0)])
    gated.session.upstream_data(encode_response(said, GROUPS, 2, 5))
    assert results(gated) == [("new", LOADING), ("h", 0), ("g", NON_EMPTY)]
    assert not commits_under_way(gated.gates, "h")


async def test_more_groups_than_one_request_may_name_are_refused(gated: Conversation) -> None:
    many = [f"g{number}" for number in range(gated.context.limits.groups_per_request + 1)]
    gated.says(delete_groups(*many))
    assert results(gated) == [(group, int(ErrorCode.INVALID_REQUEST)) for group in many]
    assert not gated.client.closed


async def test_a_demote_waits_for_a_deletion_that_has_passed_the_gate(gated: Conversation) -> None:
    data = delete_offsets("h")
    gated.says(data)
    assert gated.broker.take() == data
    assert commits_under_way(gated.gates, "h")
    said = encode_response(OffsetDeleteResponse(error_code=0, throttle_time_ms=0, topics=[]), OFFSETS, 0, 5)
    gated.session.upstream_data(said)
    assert answer(gated, OFFSETS, 0).error_code == 0
    assert not commits_under_way(gated.gates, "h")


async def test_without_a_lease_nothing_is_deleted(gated: Conversation) -> None:
    """Its gate may have been closed meanwhile: clients ask again, and by then it is known."""
    lease = Lease()
    gated.lease(lease)
    lease.over = True
    gated.says(delete_offsets("h"))
    gated.loop.fire()
    assert answer(gated, OFFSETS, 0).error_code == LOADING
    assert not gated.broker.frames()


async def test_what_was_asked_amid_a_promote_is_not_done_behind_it(gated: Conversation) -> None:
    """Members that waited join now: a deletion that overtakes them has them begin by auto.offset.reset."""
    gated.says(delete_groups("g", "h"))
    gated.gates.recorded({"g": RecordedGate(True, 0), "h": RecordedGate(True, 0)}, grown_at=0)
    assert asked(gated) == ["h"]
    kind = DeleteGroupsResponse.DeletableGroupResult
    said = DeleteGroupsResponse(throttle_time_ms=0, results=[kind(group_id="h", error_code=0)])
    gated.session.upstream_data(encode_response(said, GROUPS, 2, 5))
    assert results(gated) == [("g", NON_EMPTY), ("h", 0)]
    assert not commits_under_way(gated.gates, "h")
    assert not commits_under_way(gated.gates, "g")


async def test_nor_a_deletion_of_offsets(gated: Conversation) -> None:
    gated.says(delete_offsets("g"))
    gated.gates.recorded({"g": RecordedGate(True, 0)}, grown_at=0)
    assert answer(gated, OFFSETS, 0).error_code == NON_EMPTY
    assert not gated.broker.frames()


async def test_a_deletion_of_a_group_that_is_let_in_goes_on(gated: Conversation) -> None:
    data = delete_groups("new")
    gated.says(data)
    assert not gated.broker.frames()
    gated.gates.let_in("new", 0)
    assert gated.broker.take() == data
