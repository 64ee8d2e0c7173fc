"""Share and streams groups at the gate, and what their answers say of brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from gateway.cutover.write_pause.rules.routing import routing_of
from gateway.groups.gate.rules.gates import JOINS
from protocol.apis import ADVERTISED, ApiKey
from protocol.codec import decode_response, encode_request, encode_response
from protocol.errors import ErrorCode
from protocol.header import response_body_offset
from protocol.messages import (
    RESPONSES,
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequest,
)
from tests.support.control.gates import gate
from tests.unit.proxy.handlers.test_group_handlers import route, versions

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

LOADING, NO_SESSION = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), int(ErrorCode.SHARE_SESSION_NOT_FOUND)
NON_EMPTY = int(ErrorCode.NON_EMPTY_GROUP)
FETCH, ACKNOWLEDGE = ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE


@pytest.fixture
async def gated(talk: Conversation) -> Conversation:
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored")}))
    talk.gates.enabled = True
    gate(talk.gates, "g", is_open=False)
    return talk


def request(key: ApiKey) -> Any:
    member = {"group_id": "g", "member_id": "m"}
    session = {**member, "share_session_epoch": 0, "topics": []}
    made: dict[ApiKey, Any] = {
        ApiKey.SHARE_GROUP_HEARTBEAT: lambda: ShareGroupHeartbeatRequest(
            **member, member_epoch=0, rack_id=None, subscribed_topic_names=["mirrored"]
        ),
        FETCH: lambda: ShareFetchRequest(
            **session,
            max_wait_ms=10,
            min_bytes=1,
            max_bytes=10,
            max_records=1,
            batch_size=1,
            share_acquire_mode=0,
            is_renew_ack=False,
            forgotten_topics_data=[],
        ),
        ACKNOWLEDGE: lambda: ShareAcknowledgeRequest(**session, is_renew_ack=False),
        ApiKey.STREAMS_GROUP_HEARTBEAT: lambda: StreamsGroupHeartbeatRequest(**member, member_epoch=0),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: lambda: AlterShareGroupOffsetsRequest(group_id="g", topics=[]),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: lambda: DeleteShareGroupOffsetsRequest(group_id="g", topics=[]),
    }
    return made[key]()


def of_group(key: ApiKey, group: str) -> Any:
    made = request(key)
    made.group_id = group
    return made


def send(talk: Conversation, key: ApiKey, version: int) -> None:
    talk.says(encode_request(request(key), version, 7, "me"))


def answer(talk: Conversation, key: ApiKey, version: int) -> Any:
    (frame,) = talk.client.frames()
    view = memoryview(frame)
    return decode_response(key, version, view[response_body_offset(key, version, view) :])


GATED = [
    (ApiKey.SHARE_GROUP_HEARTBEAT, LOADING),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, LOADING),
    (ApiKey.ALTER_SHARE_GROUP_OFFSETS, NON_EMPTY),
    (ApiKey.DELETE_SHARE_GROUP_OFFSETS, NON_EMPTY),
    (FETCH, NO_SESSION),
]
CASES = [(key, version, code) for key, code in GATED for version in versions(key)]
SETS_OFFSETS = [ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS]


@pytest.mark.parametrize(("key", "version", "code"), CASES)
async def test_a_closed_gate_holds_and_refuses(gated: Conversation, key: ApiKey, version: int, code: int) -> None:
    send(gated, key, version)
    assert not gated.client.frames()
    assert len(gated.gates.waiters("g")) == (key in JOINS)  # what only operates on a group is no member's
    gated.loop.fire()
    assert answer(gated, key, version).error_code == code
    assert not gated.broker.frames()


@pytest.mark.parametrize("key", [ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT])
async def test_a_member_that_leaves_passes(gated: Conversation, key: ApiKey) -> None:
    version = versions(key)[-1]
    last = request(key)
    last.member_epoch = -1
    data = encode_request(last, version, 7, "me")
    gated.says(data)
    assert gated.broker.take() == data
    assert gated.gates.waiters("g") == []


@pytest.mark.parametrize("version", versions(ApiKey.STREAMS_GROUP_HEARTBEAT))
async def test_a_streams_member_that_had_joined_is_told_to_give_up(gated: Conversation, version: int) -> None:
    key = ApiKey.STREAMS_GROUP_HEARTBEAT
    joined = request(key)
    joined.member_epoch = 5
    gated.says(encode_request(joined, version, 7, "me"))
    assert answer(gated, key, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert not gated.broker.frames()


@pytest.mark.parametrize("key", SETS_OFFSETS)
async def test_start_offsets_are_not_set_behind_the_promote_amid_which_it_was_asked(
    gated: Conversation, key: ApiKey
) -> None:
    """Without those that were carried over the group would begin by share.auto.offset.reset, which is latest."""
    send(gated, key, 0)
    assert not gated.broker.frames()
    gate(gated.gates, "g", is_open=True)
    assert answer(gated, key, 0).error_code == NON_EMPTY
    assert not gated.broker.frames()


@pytest.mark.parametrize("key", SETS_OFFSETS)
async def test_what_sets_start_offsets_is_under_way_until_it_is_answered(gated: Conversation, key: ApiKey) -> None:
    """A demote waits for it: what it reads before would be carried to the source without it."""
    gate(gated.gates, "g", is_open=True)
    send(gated, key, 0)
    assert len(gated.broker.frames()) == 1
    assert gated.gates.has_commits("g")
    told: Any = RESPONSES[key](error_code=0, error_message=None)
    gated.session.upstream_data(encode_response(told, key, 0, 7))
    assert answer(gated, key, 0).error_code == 0
    assert not gated.gates.has_commits("g")


@pytest.mark.parametrize("key", SETS_OFFSETS)
async def test_a_group_that_nobody_knows_yet_is_asked_for_again(gated: Conversation, key: ApiKey) -> None:
    gated.says(encode_request(of_group(key, "new"), 0, 7, "me"))
    gated.loop.fire()
    assert answer(gated, key, 0).error_code == LOADING
    assert not gated.broker.frames()


@pytest.mark.parametrize("key", SETS_OFFSETS)
async def test_it_goes_on_for_a_group_that_has_nothing_to_do_with_a_mirror(gated: Conversation, key: ApiKey) -> None:
    gated.says(encode_request(of_group(key, "new"), 0, 7, "me"))
    assert not gated.broker.frames()
    assert gated.gates.let_in("new", 1 << 40)
    assert len(gated.broker.frames()) == 1


@pytest.mark.parametrize(("key", "version", "code"), [one for one in CASES if one[0] not in SETS_OFFSETS])
async def test_it_goes_on_when_the_gate_opens(gated: Conversation, key: ApiKey, version: int, code: int) -> None:
    send(gated, key, version)
    assert not gated.broker.frames()
    gate(gated.gates, "g", is_open=True)
    assert len(gated.broker.frames()) == 1


@pytest.mark.parametrize(("key", "version", "code"), CASES)
async def test_nothing_is_gated_while_nothing_is_mirrored(
    talk: Conversation, key: ApiKey, version: int, code: int
) -> None:
    send(talk, key, version)
    assert len(talk.broker.frames()) == 1


@pytest.mark.parametrize("version", versions(ACKNOWLEDGE))
async def test_what_was_acquired_may_be_acknowledged(gated: Conversation, version: int) -> None:
    send(gated, ACKNOWLEDGE, version)
    assert len(gated.broker.frames()) == 1


@pytest.mark.parametrize(
    ("key", "version"), [(key, version) for key in (FETCH, ACKNOWLEDGE) for version in versions(key)]
)
async def test_brokers_that_an_answer_names_are_the_listeners(talk: Conversation, key: ApiKey, version: int) -> None:
    kind: Any = ShareFetchResponse if key is FETCH else ShareAcknowledgeResponse
    leader = kind.NodeEndpoint(node_id=1, host="secret.internal", port=9092, rack=None)
    for brokers in ([], [leader]):
        said = kind(error_code=0, error_message=None, responses=[], node_endpoints=brokers)
        send(talk, key, version)
        talk.session.upstream_data(encode_response(said, key, version, 7))
        told = answer(talk, key, version)
        assert len(told.node_endpoints) == len(brokers)
        assert all(one.host != "secret.internal" for one in told.node_endpoints)


@pytest.mark.parametrize("key", [key for key, _ in GATED] + [ACKNOWLEDGE])
async def test_the_gateways_own_groups_are_not_there(talk: Conversation, key: ApiKey) -> None:
    asked = request(key)
    asked.group_id = "__lockgate.fleet"
    version = ADVERTISED[key][1]
    talk.says(encode_request(asked, version, 7, "me"))
    assert answer(talk, key, version).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not talk.broker.frames()


async def test_the_gateways_own_topics_are_not_there(talk: Conversation) -> None:
    own = UUID(int=5)
    talk.context.own_names.learn({"__lockgate_state": own.bytes})
    kind = ShareFetchRequest.FetchTopic
    asked = request(FETCH)
    asked.topics = [kind(topic_id=own, partitions=[])]
    talk.says(encode_request(asked, 1, 7, "me"))
    assert answer(talk, FETCH, 1).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    asked = request(ApiKey.SHARE_GROUP_HEARTBEAT)
    asked.subscribed_topic_names = ["orders", "__lockgate_state"]
    talk.says(encode_request(asked, 1, 7, "me"))
    assert answer(talk, ApiKey.SHARE_GROUP_HEARTBEAT, 1).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not talk.broker.frames()
