"""How much one request may name, and how many members of groups may wait for one principal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.cutover.write_pause.rules.routing import TopicRoute, WritePhase, routing_of
from gateway.proxy.rules.waiters import WaiterCounts
from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_request
from protocol.errors import ErrorCode
from protocol.header import frame_request, response_body_offset
from protocol.messages import DeleteTopicsRequest, JoinGroupRequest, OffsetFetchRequest
from protocol.produce import build_request_body
from tests.support.control.gates import gate
from tests.support.control.pausing import in_phase
from tests.support.proxy.conversation import Conversation
from tests.support.proxy.limits import limits_with

if TYPE_CHECKING:
    from collections.abc import Callable


def join(group: str) -> bytes:
    message = JoinGroupRequest(group_id=group, session_timeout_ms=1, protocol_type="consumer", protocols=[])
    return encode_request(message, 5, 7, "me")


def delete_topics(count: int) -> bytes:
    return encode_request(DeleteTopicsRequest(topic_names=[f"t{n}" for n in range(count)]), 5, 7, "me")


def produce(count: int) -> bytes:
    parts: Any = {"mirrored": [(n, b"") for n in range(count)]}
    body = b"".join(bytes(piece) for piece in build_request_body(9, None, -1, 5_000, parts))
    return frame_request(int(ApiKey.PRODUCE), 9, 7, "me", body)


def offset_fetch(count: int) -> bytes:
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [kind.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    message = OffsetFetchRequest(groups=[kind(group_id=f"g{n}", topics=topics) for n in range(count)])
    return encode_request(message, 8, 7, "me")


@pytest.fixture
async def small() -> Conversation:
    """A topic is mirrored, groups are gated, and limits are low."""
    talk = Conversation(limits=limits_with(elements_per_request=50, groups_per_request=3, waiters_per_principal=2))
    route = TopicRoute(
        link="west", mirror_topic="mirrored", source_topic="mirrored", pause=in_phase(WritePhase.FORWARD)
    )
    talk.context.routing.publish(routing_of({"mirrored": route}))
    talk.gates.enabled = True
    return talk


@pytest.mark.parametrize("request_of", [delete_topics, produce])
@pytest.mark.parametrize(("count", "closed"), [(40, {}), (51, {"bad request": 1})])
async def test_a_request_of_too_many_elements_closes_its_connection(
    small: Conversation, request_of: Callable[[int], bytes], count: int, closed: dict[str, int]
) -> None:
    small.says(request_of(count))
    assert small.client.closed is bool(closed)
    assert small.context.stats.closed == closed


async def test_groups_in_an_offset_fetch(small: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not decoded to be refused: two thousand took 40 ms of the event loop."""
    monkeypatch.setattr("gateway.proxy.session.exchange.decode_request", None)
    small.says(offset_fetch(4))
    (frame,) = small.client.frames()
    view = memoryview(frame)
    key = int(ApiKey.OFFSET_FETCH)
    found = decode_response(key, 8, view[response_body_offset(key, 8, view) :])
    assert {group.error_code for group in found.groups} == {int(ErrorCode.INVALID_REQUEST)}


async def test_waiters_of_a_principal_beyond_the_limit_are_not_counted(small: Conversation) -> None:
    talk = small
    for n in range(3):
        gate(talk.gates, f"g{n}", is_open=False)
    talk.says(offset_fetch(3))
    assert talk.gates.waiting_here() == []
    assert talk.context.waiters.uncounted == 1
    talk.loop.fire()  # its time is up, as any other's
    assert len(talk.client.frames()) == 1
    talk.says(offset_fetch(2))
    assert len(talk.gates.waiting_here()) == 2
    talk.session.close("client closed")
    assert talk.context.waiters.take("10.0.0.7", 2)


def test_counts_are_of_each_principal() -> None:
    counts = WaiterCounts(2)
    assert [counts.take("alice", 1) for _ in range(3)] == [True, True, False]
    assert counts.take("bob", 2)
    counts.give_back("alice", 1)
    assert [counts.take("alice", 1) for _ in range(2)] == [True, False]
    for who, waiters in (("alice", 2), ("bob", 2)):
        counts.give_back(who, waiters)
    assert (counts._of, counts.uncounted) == ({}, 2)
